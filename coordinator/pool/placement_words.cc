// Says what a job lacks, as a sentence. Only the first few names are listed, so its length is
// bounded.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/counted.h"
#include "coordinator/pool/placement.h"

namespace longhaul {
namespace {

std::string Text(const SomeNames& names) {
  std::string text = absl::StrJoin(names.first, ", ");
  const int more = names.count - static_cast<int>(names.first.size());
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

absl::string_view Are(int count) { return count == 1 ? "is" : "are"; }

// For example "2 cuda pools with codec:topk2".
std::string Subject(const Lack& lack) {
  const absl::string_view device = lack.device == PoolDevice::kCuda ? "cuda " : "";
  std::string subject;
  if (lack.names.count == 1) {
    subject = absl::StrCat(device, "pool ", Text(lack.names), " (named by the job)");
  } else {
    subject = Counted(lack.missing, absl::StrCat(device, "pool"));
    if (lack.names.count > 1) {
      absl::StrAppend(&subject, " out of ", Text(lack.names), " (named by the job)");
    }
  }
  if (lack.lacking.empty()) return subject;
  SomeNames needs{.count = static_cast<int>(lack.lacking.size())};
  for (const auto& [need, pools] : lack.lacking) {
    if (needs.first.size() < 3) needs.first.push_back(need);
  }
  absl::StrAppend(&subject, " with ", Text(needs));
  return subject;
}

class Clauses {
 public:
  template <typename... Parts>
  void Add(const Parts&... parts) {
    absl::StrAppend(&text_, text_.empty() ? "" : "; ", parts...);
  }
  // For example "2 cpu pools are idle", of pools that the job cannot use.
  template <typename... Parts>
  void AddPools(int count, absl::string_view kind, const Parts&... parts) {
    if (count > 0) Add(Counted(count, absl::StrCat(kind, "pool")), " ", parts...);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AddWhatFits(const Lack& lack, Clauses& clauses) {
  if (lack.idle > 0) {
    clauses.Add(lack.idle, " idle, too few: other jobs may use ", lack.idle == 1 ? "it" : "them");
  }
  if (lack.held > 0) clauses.Add(lack.held, " idle ", Are(lack.held), " reserved for this job");
  if (lack.kept.pools > 0) {
    clauses.Add(lack.kept.pools, " idle ", Are(lack.kept.pools), " reserved for ",
                Text(lack.kept.jobs));
  }
  if (lack.busy.pools > 0) {
    clauses.Add(lack.busy.pools, " ", Are(lack.busy.pools), " busy with ", Text(lack.busy.jobs));
  }
  for (const auto& [pool, why] : lack.set_aside_first) {
    clauses.Add(pool, " set aside: ", why);
  }
  const int more = lack.set_aside - static_cast<int>(lack.set_aside_first.size());
  if (more > 0) clauses.Add(more, " more set aside");
}

void AddWhatDoesNot(const Lack& lack, Clauses& clauses) {
  if (lack.names.count == 1 && lack.absent.count == 1) {
    clauses.Add("not connected");
  } else if (lack.absent.count > 0) {
    clauses.Add("not connected: ", Text(lack.absent));
  }
  const int busy = lack.without_device_busy.pools;
  clauses.AddPools(lack.without_device, "cpu ", Are(lack.without_device), " idle");
  clauses.AddPools(busy, "cpu ", Are(busy), " busy with ", Text(lack.without_device_busy.jobs));
  for (size_t i = 0; i < std::min<size_t>(lack.lacking.size(), 3); ++i) {
    const auto& [need, pools] = lack.lacking[i];
    // Only programs before tokenizer.json was known lack it. A SentencePiece model may be meant all
    // the same.
    const char* const way_out =
        need == "data:hf-tokenizer"
            ? " (an earlier version; a SentencePiece model named *.model does not need it)"
            : "";
    clauses.AddPools(pools, "", pools == 1 ? "lacks " : "lack ", need, way_out);
  }
}

}  // namespace

std::string Sentence(const Lack& lack) {
  Clauses clauses;
  AddWhatFits(lack, clauses);
  const bool none_fits =
      lack.idle + lack.held + lack.kept.pools + lack.busy.pools + lack.set_aside == 0;
  if (none_fits && lack.absent.count == 0) clauses.Add("0 connected");
  AddWhatDoesNot(lack, clauses);
  return absl::StrCat(Subject(lack), ": ", clauses.Take());
}

}  // namespace longhaul
