#include "worker/rank/device_names.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

constexpr size_t kNameWords = 8, kNameBytes = kNameWords * sizeof(int64_t);

std::array<int64_t, kNameWords> WordsOf(absl::string_view name) {
  std::array<int64_t, kNameWords> words = {};
  name = name.substr(0, kNameBytes);
  if (!name.empty()) std::memcpy(words.data(), name.data(), name.size());
  return words;
}

std::string NameOf(const std::vector<int64_t>& words) {
  std::string name(words.size() * sizeof(int64_t), '\0');
  std::memcpy(name.data(), words.data(), name.size());
  return name.substr(0, name.find('\0'));
}

}  // namespace

absl::StatusOr<std::string> WarningOfDevices(absl::string_view name, GatherWords gather) {
  LH_ASSIGN_OR_RETURN(const std::vector<std::vector<int64_t>> words_of_rank, gather(WordsOf(name)));
  std::map<std::string, std::vector<size_t>> ranks_of_name;
  for (size_t rank = 0; rank < words_of_rank.size(); ++rank)
    ranks_of_name[NameOf(words_of_rank[rank])].push_back(rank);
  if (ranks_of_name.size() < 2) return "";
  std::vector<std::string> types;
  for (const auto& [type, ranks] : ranks_of_name)
    types.push_back(absl::StrCat(type, " (rank ", absl::StrJoin(ranks, ", "), ")"));
  return absl::StrCat("the pool's ranks compute on different devices: ", absl::StrJoin(types, "; "),
                      ". Each step takes as long as on the slowest, and updates that each rank "
                      "computes for itself may differ in their last bits");
}

}  // namespace longhaul
