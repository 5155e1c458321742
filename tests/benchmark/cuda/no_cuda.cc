// The benchmark of a build without CUDA: no rows.
#include <cstdio>

int main() { std::fprintf(stderr, "no CUDA device: this build has LONGHAUL_CUDA off\n"); }
