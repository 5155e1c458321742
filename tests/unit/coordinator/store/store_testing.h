// Helpers of the store's tests: small jobs, contributions made from plain numbers, rounds in one
// call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/codec/codec.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/log_recovery.h"

namespace longhaul {

// Two fragments of a few blocks; exact codec, plain descent with lr 2; small log files, so that
// they change often.
inline JobStoreOptions SmallOptions() {
  JobStoreOptions options;
  options.fragment_elements = {1000, 384};
  options.down.kind = CodecKind::kFp32;
  options.outer_lr = 2;
  options.outer_momentum = 0;
  options.snapshot_every = 3;
  options.log_file_bytes = 64 << 10;
  options.log_salt = 42;
  return options;
}

// A log as a start finds it, without leftovers.
inline absl::StatusOr<ScannedLog> RecoverLog(FileSystem& fs, const std::string& dir,
                                             const LogScanOptions& options) {
  LH_ASSIGN_OR_RETURN(ScannedLog log, ScanLog(fs, dir, options));
  LH_RETURN_IF_ERROR(RemoveLeftovers(fs, dir, log));
  return log;
}

inline JobManifest ManifestWith(const JobStoreOptions& options) {
  return {.id = "id1", .name = "alpha", .spec = "spec", .options = options};
}

// Reproducible values in [-0.5, 0.5).
inline std::vector<float> NoiseOf(int64_t elements, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(elements);
  for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
  return values;
}

// A coded part of the blocks that `values` fill from `first_block` on, with one segment for each
// tile.
struct CodedPart {
  PartInfo info;
  std::vector<uint8_t> payload;
};
inline CodedPart Code(PartInfo info, absl::Span<const float> values, int64_t first_block = 0) {
  const std::unique_ptr<Codec> codec = *MakeCodec({.kind = info.codec});
  CodedPart coded = {std::move(info), {}};
  for (int64_t begin = 0, size = values.size(); begin < size;) {
    const int64_t block = first_block + begin / kBlockElements;
    const int64_t room = kTileElements - block % kTileBlocks * kBlockElements;
    const auto part = values.subspan(begin, room);
    std::vector<uint8_t> payload(codec->PayloadBytes(part.size()));
    const int32_t exponent = codec->Encode({part}, {}, absl::MakeSpan(payload))->base_exponent;
    coded.info.segments.push_back({block, static_cast<int32_t>(part.size()), exponent});
    coded.payload.insert(coded.payload.end(), payload.begin(), payload.end());
    begin += part.size();
  }
  return coded;
}

// Pushes one contribution as two parts (the second half first, as ranks may do), if there is more
// than one block.
inline absl::StatusOr<Contribution> Push(JobStore& store, const PartInfo& info,
                                         absl::Span<const float> values, double weight = 1) {
  Contribution contribution = {info.pool, weight, {}};
  const int64_t half = static_cast<int64_t>(values.size()) / kBlockElements / 2;
  for (const int part : {1, 0}) {
    const auto range =
        part == 0 ? values.first(half * kBlockElements) : values.subspan(half * kBlockElements);
    if (range.empty()) continue;
    const CodedPart coded = Code(info, range, part == 0 ? 0 : half);
    LH_ASSIGN_OR_RETURN(StoredPart stored, store.AppendPart(coded.info, {coded.payload}));
    contribution.parts.push_back(std::move(stored));
  }
  return contribution;
}

// A whole round from the values of each pool ("pool0", "pool1", ...). Each pool has weight 1.
inline absl::StatusOr<CommitRecord> Round(JobStore& store, int fragment, RoundKind kind,
                                          const std::vector<std::vector<float>>& pools,
                                          CodecKind codec = CodecKind::kFp32) {
  LH_ASSIGN_OR_RETURN(const int64_t version, store.Version(fragment));
  RoundInput round{.round = {fragment, version + 1, kind}};
  for (size_t i = 0; i < pools.size(); ++i) {
    const PartInfo info = {round.round, "pool" + std::to_string(i), codec, {}};
    LH_ASSIGN_OR_RETURN(Contribution contribution, Push(store, info, pools[i]));
    round.contributions.push_back(std::move(contribution));
  }
  return store.Apply(round);
}

// The whole range of a fragment.
inline std::vector<BlockRange> AllBlocks(const JobStore& store, int fragment) {
  const int64_t elements = store.options().fragment_elements[fragment];
  return {{0, (elements + kBlockElements - 1) / kBlockElements}};
}

// The values of blocks that are coded in fp32.
inline std::vector<float> FloatsOf(const CodedBlocks& blocks) {
  const auto* const values = reinterpret_cast<const float*>(blocks.payload.data());
  return {values, values + blocks.payload.size() / sizeof(float)};
}

// The outer parameters of a whole fragment.
inline std::vector<float> OuterOf(const JobStore& store, int fragment) {
  return FloatsOf(*store.ReadOuter(fragment, *store.Version(fragment), AllBlocks(store, fragment)));
}

}  // namespace longhaul
