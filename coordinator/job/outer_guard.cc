#include "coordinator/job/outer_guard.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_format.h"

namespace longhaul {
namespace {

// How many rounds say what is usual, if the options do not ask for more.
constexpr size_t kRoundsKept = 16;
// Contributions with less in common have no direction that one of them could oppose.
constexpr double kAgreementMin = 0.2;

// Of two in the middle, the smaller one. Requires values.
double LowerMedian(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void Keep(double value, size_t kept, std::vector<double>* values) {
  values->push_back(value);
  if (values->size() > kept)
    values->erase(values->begin(), values->end() - static_cast<int64_t>(kept));
}

std::vector<OuterVerdict::Far> FarByNorm(const OuterGuardOptions& options, double usual,
                                         double middle,
                                         const std::vector<OuterMeasure>& contributions) {
  std::vector<OuterVerdict::Far> far;
  const double reference = std::max(usual, middle);
  for (size_t i = 0; reference > 0 && i < contributions.size(); ++i) {
    const double norm = contributions[i].norm;
    if (norm <= options.norm * reference) continue;
    far.push_back({i, absl::StrFormat("its norm is %.3g, %.0f times the usual %.3g", norm,
                                      norm / reference, reference)});
  }
  return far;
}

std::vector<OuterVerdict::Far> FarByCosine(const OuterGuardOptions& options, double usual,
                                           const std::vector<OuterMeasure>& contributions) {
  std::vector<OuterVerdict::Far> far;
  for (size_t i = 0; usual >= kAgreementMin && i < contributions.size(); ++i) {
    const auto& [norm, cosine, others] = contributions[i];
    const double bound = options.cosine * usual;
    if (others < bound || cosine >= -bound) continue;
    far.push_back(
        {i, absl::StrFormat("its mean cosine with the others is %.2f, theirs is %.2f and usually "
                            "%.2f",
                            cosine, others, usual)});
  }
  return far;
}

// The mean cosine of those that are not far: exact if one of at least three is. Nothing: two are
// left, or fewer.
std::optional<double> Agreement(const std::vector<OuterMeasure>& contributions,
                                const std::vector<OuterVerdict::Far>& far) {
  if (contributions.size() < 3) return std::nullopt;
  double agreement = -1, mean = 0;
  for (const OuterMeasure& measure : contributions) mean += measure.cosine;
  if (far.empty()) return mean / static_cast<double>(contributions.size());
  for (const OuterVerdict::Far& left_out : far)
    agreement = std::max(agreement, contributions[left_out.contribution].others);
  return agreement;
}

}  // namespace

bool OuterVerdict::LeavesOut(size_t contribution) const {
  return !overruled && std::any_of(far.begin(), far.end(), [&](const Far& entry) {
    return entry.contribution == contribution;
  });
}

OuterVerdict JudgeOuter(const OuterGuardOptions& options, const OuterUsual& usual,
                        const std::vector<OuterMeasure>& contributions, size_t needed) {
  OuterVerdict verdict{.usual = usual};
  if (contributions.empty()) return verdict;
  const size_t count = contributions.size(), rounds = static_cast<size_t>(options.rounds);
  std::vector<double> norms;
  for (const OuterMeasure& measure : contributions) norms.push_back(measure.norm);
  const double middle = LowerMedian(std::move(norms));
  if (usual.norms.size() >= rounds)
    verdict.far = FarByNorm(options, LowerMedian(usual.norms), middle, contributions);
  const bool by_norm = !verdict.far.empty();
  if (!by_norm && options.cosine > 0 && count >= 3 && usual.cosines.size() >= rounds)
    verdict.far = FarByCosine(options, LowerMedian(usual.cosines), contributions);
  const size_t left = count - verdict.far.size();
  verdict.overruled = !verdict.far.empty() && (left < needed || 2 * left < count);
  const size_t kept = std::max(kRoundsKept, rounds);
  Keep(middle, kept, &verdict.usual.norms);
  const std::optional<double> agreement = Agreement(contributions, verdict.far);
  if (!by_norm && agreement.has_value()) Keep(*agreement, kept, &verdict.usual.cosines);
  return verdict;
}

}  // namespace longhaul
