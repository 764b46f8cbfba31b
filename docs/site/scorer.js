// The order of what a search finds: names that were typed, guides, then reference and explanations, then what most
// readers never need.

var Scorer = {
  score: ([page, , anchor, , score, , kind]) => {
    if (/^(source|project|design)\/|^design$|_what_these_give$/.test(page) || /^#mblob(\.[a-z_]+){2,}\./.test(anchor)) return score - 60;
    if (kind === "object" && score >= 16) return score + 25; // all of its last name
    return /^(howto\/|tutorial$|install$)/.test(page) ? score + 30 : score;
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
