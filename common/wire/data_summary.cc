#include "common/wire/data_summary.h"

#include "absl/strings/str_cat.h"

namespace longhaul {

std::string DifferenceOf(const v1::DataSummary& before, const v1::DataSummary& now,
                         absl::string_view unit) {
  const int sources = before.tokens_size();
  if (sources == 0 || now.tokens().empty()) return "";
  if (now.tokens_size() != sources)
    return absl::StrCat("it had ", sources, " sources and has ", now.tokens_size());
  for (int i = 0; i < sources; ++i) {
    if (before.tokens(i) != now.tokens(i)) {
      return absl::StrCat("source ", i, " had ", before.tokens(i), " ", unit, " and has ",
                          now.tokens(i));
    }
  }
  for (int i = 0; i < sources; ++i) {
    if (i < before.samples_size() && i < now.samples_size() &&
        before.samples(i) != now.samples(i)) {
      return absl::StrCat("source ", i, " has as many ", unit, " as before (", now.tokens(i),
                          "), but others, or in another order");
    }
  }
  return "";
}

}  // namespace longhaul
