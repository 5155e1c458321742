// Which contributions to a round are so far from the others that they are left out of its outer
// step, by what was measured of them and what is usual in their fragment.
//
// Pure values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace longhaul {

struct OuterGuardOptions {
  bool on = false;
  // A norm is far from the others if it is more than so many times both the usual one and the one
  // in the middle of the round.
  double norm = 10;
  // A cosine is far from the others if it is below so many times the usual one, with the opposite
  // sign, while the others' with each other is at least so many times the usual one. Negative:
  // cosines are not judged.
  double cosine = 0.5;
  // So many rounds of a fragment say what is usual. Before them none is judged.
  int rounds = 5;
};

// What was measured of one contribution to a round.
struct OuterMeasure {
  // L2 norm of the outer gradient.
  double norm = 0;
  // Its mean cosine with the other contributions, and theirs with each other. 0 for fewer than
  // three contributions.
  double cosine = 0, others = 0;
};

// What is usual in a fragment, by its newest rounds, oldest first.
struct OuterUsual {
  // The norm in the middle of each round (of two, the smaller one): with more than half of the
  // contributions as they should be, it is that of one of these, or less.
  std::vector<double> norms;
  // The mean cosine of the contributions that were not far from the others.
  std::vector<double> cosines;
};

// A contribution that is left out.
struct LeftOut {
  std::string pool, incarnation;
  // Why, for people.
  std::string why;
};

// What a commit keeps of the guard: later rounds are judged by it, also after a restart.
struct OuterNote {
  std::vector<LeftOut> left_out;
  OuterUsual usual;
};

struct OuterVerdict {
  struct Far {
    // Its place in the round.
    size_t contribution = 0;
    std::string why;
  };
  // Ascending.
  std::vector<Far> far;
  // Too few would be left, so all of them count.
  bool overruled = false;
  // With this round.
  OuterUsual usual;

  bool LeavesOut(size_t contribution) const;
};

// Judges the contributions to one round. At least half of them and `needed` count. Cosines are
// judged only in a round without a norm that is far, since that one outweighs the others.
OuterVerdict JudgeOuter(const OuterGuardOptions& options, const OuterUsual& usual,
                        const std::vector<OuterMeasure>& contributions, size_t needed);

}  // namespace longhaul
