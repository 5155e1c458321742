#include "common/blocks/coded_blocks.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// Cuts 0..weights.size() into at most `parts` runs of about equal weight, none of them empty.
// Returns the end of each.
std::vector<size_t> EvenRuns(const std::vector<int64_t>& weights, int parts) {
  int64_t total = 0;
  for (const int64_t weight : weights) total += weight;
  std::vector<size_t> ends;
  int64_t sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    // A run ends with the item that reaches the run's share of the total.
    const int64_t share = CeilDiv(total, parts) * (static_cast<int64_t>(ends.size()) + 1);
    if (sum >= share || i + 1 == weights.size()) ends.push_back(i + 1);
  }
  return ends;
}

int64_t BlockCount(const SegmentRef& segment) { return CeilDiv(segment.elements, kBlockElements); }

}  // namespace

int64_t CodedSource::payload_bytes() const {
  int64_t bytes = 0;
  for (const auto& payload : payloads) bytes += static_cast<int64_t>(payload.size());
  return bytes;
}

CodedSource SourceOf(std::shared_ptr<const CodedBlocks> blocks, const SegmentBytes& segment_bytes) {
  CodedSource source;
  source.segments = blocks->segments;
  source.payloads.reserve(source.segments.size());
  size_t offset = 0;
  for (const SegmentRef& segment : source.segments) {
    const size_t bytes = segment_bytes(segment.elements);
    LH_CHECK(bytes <= blocks->payload.size() - offset, "the payload is shorter than its segments");
    source.payloads.push_back(blocks->payload.span().subspan(offset, bytes));
    offset += bytes;
  }
  LH_CHECK(offset == blocks->payload.size(), "the payload is longer than its segments");
  source.owner = std::move(blocks);
  return source;
}

absl::Status ForEachSegment(
    const CodedChunk& chunk, const SegmentBytes& segment_bytes,
    absl::FunctionRef<absl::Status(const SegmentRef&, absl::Span<const uint8_t>)> use) {
  std::vector<uint8_t> straddling;
  size_t piece = 0;
  // The unread rest of the piece before `piece`.
  absl::Span<const uint8_t> rest;
  for (const SegmentRef& segment : chunk.segments) {
    const size_t bytes = segment_bytes(segment.elements);
    if (rest.empty() && piece < chunk.pieces.size()) rest = chunk.pieces[piece++];
    if (rest.size() >= bytes) {
      LH_RETURN_IF_ERROR(use(segment, rest.first(bytes)));
      rest.remove_prefix(bytes);
      continue;
    }
    straddling.clear();
    while (true) {
      const auto part = rest.subspan(0, bytes - straddling.size());
      straddling.insert(straddling.end(), part.begin(), part.end());
      rest.remove_prefix(part.size());
      if (straddling.size() == bytes) break;
      LH_CHECK(piece < chunk.pieces.size(), "a verified chunk has the bytes of its segments");
      rest = chunk.pieces[piece++];
    }
    LH_RETURN_IF_ERROR(use(segment, straddling));
  }
  return absl::OkStatus();
}

std::vector<SegmentRef> CutSegments(const std::vector<BlockRange>& blocks,
                                    int64_t fragment_elements) {
  std::vector<SegmentRef> segments;
  for (const BlockRange& range : blocks) {
    for (int64_t first = range.first; first < range.end();) {
      const int64_t tile_end = (first / kTileBlocks + 1) * kTileBlocks;
      const int64_t end = std::min(range.end(), tile_end);
      const int64_t elements =
          std::min(end * kBlockElements, fragment_elements) - first * kBlockElements;
      segments.push_back({first, static_cast<int32_t>(elements), 0});
      first = end;
    }
  }
  return segments;
}

std::vector<BlockRange> BlocksOf(absl::Span<const SegmentRef> segments) {
  std::vector<BlockRange> blocks;
  for (const SegmentRef& segment : segments) {
    if (blocks.empty() || blocks.back().end() != segment.first_block) {
      blocks.push_back({segment.first_block, 0});
    }
    blocks.back().count += BlockCount(segment);
  }
  return blocks;
}

std::vector<BlockRange> Missing(const std::vector<BlockRange>& blocks,
                                const std::vector<BlockRange>& here) {
  std::vector<BlockRange> missing;
  auto next = here.begin();
  for (const BlockRange& range : blocks) {
    int64_t first = range.first;
    while (next != here.end() && next->end() <= first) ++next;
    for (auto it = next; it != here.end() && it->first < range.end(); ++it) {
      if (it->first > first) missing.push_back({first, it->first - first});
      first = std::max(first, it->end());
    }
    if (first < range.end()) missing.push_back({first, range.end() - first});
  }
  return missing;
}

std::vector<BlockRange> Merged(const std::vector<BlockRange>& a, const std::vector<BlockRange>& b) {
  std::vector<BlockRange> sorted;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(sorted),
             [](const BlockRange& x, const BlockRange& y) { return x.first < y.first; });
  std::vector<BlockRange> merged;
  for (const BlockRange& range : sorted) {
    if (!merged.empty() && merged.back().end() >= range.first) {
      merged.back().count = std::max(merged.back().end(), range.end()) - merged.back().first;
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

CodedSource Missing(const CodedSource& source, const std::vector<BlockRange>& here) {
  CodedSource missing{.owner = source.owner};
  for (size_t i = 0; i < source.segments.size(); ++i) {
    if (Missing({{source.segments[i].first_block, BlockCount(source.segments[i])}}, here).empty()) {
      continue;
    }
    missing.segments.push_back(source.segments[i]);
    missing.payloads.push_back(source.payloads[i]);
  }
  return missing;
}

std::vector<CodedSource> SplitSource(const CodedSource& source, int parts) {
  std::vector<int64_t> weights;
  for (const auto& payload : source.payloads) weights.push_back(payload.size());
  std::vector<CodedSource> result;
  size_t begin = 0;
  for (const size_t end : EvenRuns(weights, parts)) {
    CodedSource& part = result.emplace_back();
    part.segments.assign(source.segments.begin() + begin, source.segments.begin() + end);
    part.payloads.assign(source.payloads.begin() + begin, source.payloads.begin() + end);
    part.owner = source.owner;
    begin = end;
  }
  return result;
}

std::vector<std::vector<BlockRange>> SplitBlocks(const std::vector<BlockRange>& blocks, int parts) {
  if (blocks.empty()) return {};
  // The ranges are cut between tiles, where segments end anyway.
  const std::vector<SegmentRef> pieces = CutSegments(blocks, blocks.back().end() * kBlockElements);
  std::vector<int64_t> weights;
  for (const SegmentRef& piece : pieces) weights.push_back(piece.elements);
  std::vector<std::vector<BlockRange>> result;
  size_t begin = 0;
  for (const size_t end : EvenRuns(weights, parts)) {
    result.push_back(BlocksOf(absl::MakeConstSpan(pieces).subspan(begin, end - begin)));
    begin = end;
  }
  return result;
}

absl::Status CheckBlocks(absl::Span<const BlockRange> blocks, int64_t fragment_elements) {
  if (blocks.empty()) return absl::InvalidArgumentError("blocks: no block range");
  const int64_t fragment_blocks = CeilDiv(fragment_elements, kBlockElements);
  int64_t end = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto refuse = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("blocks[", i, "]: ", why));
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
