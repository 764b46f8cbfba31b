/* What the graph calls where nobody takes an operator. */
enum { N = 1000 };

void multiply(const float a[1000], const float b[1000], float y[1000]) {
  for (int i = 0; i < N; i++) y[i] = a[i] * b[i];
}
void add(const float a[1000], const float b[1000], float y[1000]) {
  for (int i = 0; i < N; i++) y[i] = a[i] + b[i];
}
void relu(const float a[1000], float y[1000]) {
  for (int i = 0; i < N; i++) y[i] = a[i] > 0 ? a[i] : 0;
}
void sum(const float a[1000], float y[1]) {
  y[0] = 0;
  for (int i = 0; i < N; i++) y[0] += a[i];
}
