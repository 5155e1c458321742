#include "worker/data/data_sample.h"

#include <algorithm>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/io/digest.h"

namespace longhaul {
namespace {

constexpr int64_t kPlaces = 64, kTokensAtEach = 16;

}  // namespace

absl::StatusOr<uint64_t> SampleOf(const Dataset& data) {
  Digester digester;
  std::vector<int64_t> read(std::min(kTokensAtEach, data.tokens()));
  const int64_t last = data.tokens() - static_cast<int64_t>(read.size());
  for (int64_t i = 0; i < kPlaces; ++i) {
    const auto first = static_cast<int64_t>(static_cast<__int128>(last) * i / (kPlaces - 1));
    LH_RETURN_IF_ERROR(data.Read(first, absl::MakeSpan(read)));
    digester.Update(absl::string_view(reinterpret_cast<const char*>(read.data()),
                                      read.size() * sizeof(int64_t)));
    if (!data.masked()) continue;
    LH_RETURN_IF_ERROR(data.ReadMask(first, absl::MakeSpan(read)));
    digester.Update(absl::string_view(reinterpret_cast<const char*>(read.data()),
                                      read.size() * sizeof(int64_t)));
  }
  return digester.Value().low;
}

}  // namespace longhaul
