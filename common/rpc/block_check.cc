// The part of coded_blocks.h that refuses with a proto.
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/checked_math.h"
#include "common/rpc/coded_blocks.h"
#include "common/rpc/status_details.h"

namespace longhaul {

absl::Status CheckBlocks(const std::vector<BlockRange>& blocks, int64_t fragment_elements) {
  if (blocks.empty()) return BadRequestError({{"blocks", "no block range"}});
  const int64_t fragment_blocks = CeilDiv(fragment_elements, kBlockElements);
  int64_t end = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto refuse = [&](const std::string& why) {
      return BadRequestError({{absl::StrCat("blocks[", i, "]"), why}});
    };
    if (blocks[i].count <= 0) return refuse("no block in it");
    if (blocks[i].first < end) return refuse("not after the range before it");
    const std::optional<int64_t> next = CheckedAdd(blocks[i].first, blocks[i].count);
    if (!next.has_value() || *next > fragment_blocks) {
      return refuse(absl::StrCat("not within the ", fragment_blocks, " blocks of the fragment"));
    }
    end = *next;
  }
  return absl::OkStatus();
}

}  // namespace longhaul
