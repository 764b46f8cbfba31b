"""docs/peers.md has the tables of the peers' cases as the tests have them."""

from __future__ import annotations

import pytest

from tests.peers import table


def test_the_page_has_the_tables_of_these_tests() -> None:
    text = table.PAGE.read_text()
    assert table.block() in text, "run python -m tests.peers.table"


@pytest.mark.parametrize("suite", table.suites())
def test_each_case_has_one_name_and_one_outcome(suite: str) -> None:
    cases = table.suites()[suite]
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    assert not [case for case in cases if case.differs and case.unsaid]
