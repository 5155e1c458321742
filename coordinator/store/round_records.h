// What the log says about rounds: parts of contributions, parts of downlinks, commits. FORMAT.md
// has the bytes.
//
// The Decode functions expect bodies whose digest was verified. A body that does not decode
// nevertheless gives DATA_LOSS. The segments that they return have 1 to kTileElements elements and
// begin within 2^40. The caller checks whether they fit the fragment and each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/blocks/coded_blocks.h"
#include "common/codec/codec.h"
#include "common/io/digest.h"
#include "common/schedule/round_id.h"
#include "coordinator/job/outer_guard.h"
#include "coordinator/store/log_format.h"

namespace longhaul {

// Some blocks of a contribution: what a rank's stream brought at once, without blocks that were
// there already. In the log it is a frame of type kPart: the encoded record, then the payload.
struct PartInfo {
  RoundId round;
  std::string pool;
  CodecKind codec = CodecKind::kFp32;
  // Disjoint, ascending. Their coded bytes follow each other in the payload.
  std::vector<SegmentRef> segments;
  // The incarnation of the pool. A contribution has parts of only one.
  std::string incarnation;
  // Of the pool in the mean. Finite and positive. The least of a contribution's parts counts.
  double weight = 1;
};

// A part in the log, with all that is needed to read it again.
struct StoredPart {
  PartInfo info;
  LogPosition payload;
  Digest128 body_digest;
  // The sequence of its frame.
  uint64_t sequence = 0;
  // Of the record before the payload, and of both.
  int64_t head_bytes = 0, body_bytes = 0;

  LogPosition body() const { return {payload.file, payload.offset - head_bytes}; }
};

// One pool's contribution to a round: the parts of its ranks, which together hold every block once.
struct Contribution {
  std::string pool;
  // Finite and positive; used as fp32.
  double weight = 1;
  std::vector<StoredPart> parts;
};

// Some tiles of a downlink. In the log it is a frame of type kDownlink: the encoded record, then
// the payload.
struct DownlinkPart {
  int fragment = 0;
  int64_t version = 0;
  CodecKind codec = CodecKind::kFp32;
  std::vector<SegmentRef> segments;
};

// A committed version, as it is published.
struct CommitRecord {
  RoundId round;
  // XXH3-128 of the outer parameters (fp32, canonical layout).
  Digest128 digest;
  // In the order of the sum.
  std::vector<std::string> pools;
  // One for each pool, or "": an earlier version wrote the commit.
  std::vector<std::string> incarnations;
  // As given to the round. The store does not interpret them. `due`: InfinitePast if not known.
  std::string evaluator;
  absl::Time due = absl::InfinitePast();
  // ||d - deq(Q(d))||^2 / ||d||^2; 0 if exact.
  double downlink_nmse = 0;
  // L2 norm of the weighted mean D. 0 for seed and skipped rounds.
  double outer_gradient_norm = 0;
  // L2 norm of theta after the step.
  double outer_parameter_norm = 0;
  // Coded bytes of all segments. 0 for seed and skipped rounds.
  int64_t downlink_bytes = 0;
  // As given to the round. Empty without guard.outer.
  OuterNote outer;
  // MeanCosine of the contributions. It is not written to the log, so it is empty after a restart.
  std::optional<double> contribution_cosine;
};

// What recovery needs to make the version again. In the log it is a frame of type kCommit: the
// encoded record.
struct LoggedCommit {
  struct Input {
    // The sequence of the part's frame.
    uint64_t sequence = 0;
    Digest128 body_digest;
  };
  CommitRecord record;
  // Version of the arithmetic with which the result was computed.
  uint32_t arithmetic = 0;
  // Digest of the parameters before the round. Zero before the seed.
  Digest128 previous;
  // The sequence of the first part of its downlink. Parts of failed attempts are older.
  uint64_t first_downlink = 0;
  // One for each pool of record.pools.
  std::vector<double> weights;
  // One list for each pool of record.pools.
  std::vector<std::vector<Input>> inputs;
};

std::string EncodePart(const PartInfo& part);
std::string EncodeDownlinkPart(const DownlinkPart& part);
std::string EncodeCommit(const LoggedCommit& commit);

// An encoded record begins with its own size. DecodeRecordSize reads that size from the first
// kRecordSizeBytes of a body. DATA_LOSS: the size is impossible.
inline constexpr int64_t kRecordSizeBytes = 4;
absl::StatusOr<int64_t> DecodeRecordSize(absl::string_view bytes, int64_t body_bytes);

absl::StatusOr<PartInfo> DecodePart(absl::string_view bytes);
absl::StatusOr<DownlinkPart> DecodeDownlinkPart(absl::string_view bytes);
absl::StatusOr<LoggedCommit> DecodeCommit(absl::string_view bytes);

}  // namespace longhaul
