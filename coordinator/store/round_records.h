// What the log says about rounds: parts of contributions, parts of downlinks, commits. FORMAT.md
// has the bytes.
//
// The Decode functions are for bodies whose digest was verified; a body that does not decode all
// the same gives DATA_LOSS. Segments that they give have 1 to kTileElements elements and begin
// within 2^40; whether they fit the fragment and each other is for their reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/blocks/coded_blocks.h"
#include "common/codec/codec.h"
#include "common/io/digest.h"
#include "common/schedule/round_kind.h"
#include "coordinator/store/log_format.h"

namespace longhaul {

// Some blocks of a contribution: as many as a rank's stream brought at once, or what was left of
// them. A frame of type kPart: the encoded record, then the payload.
struct PartInfo {
  int fragment = 0;
  int64_t version = 0;  // That the round makes.
  RoundKind kind = RoundKind::kOuter;
  std::string pool;
  CodecKind codec = CodecKind::kFp32;
  std::vector<SegmentRef>
      segments;  // Disjoint, ascending; their coded bytes follow each other in the payload.
  std::string incarnation;  // Of the pool: only parts of one make a contribution.
};

// A part in the log: all that is needed to read it again.
struct StoredPart {
  PartInfo info;
  LogPosition payload;
  Digest128 body_digest;
  uint64_t sequence = 0;  // Of its frame.
};

// One pool's contribution to a round: the parts of its ranks, which together hold every block once.
struct Contribution {
  std::string pool;
  double weight = 1;  // Finite, positive; used as fp32.
  std::vector<StoredPart> parts;
};

// Some tiles of a downlink. A frame of type kDownlink: the encoded record, then the payload.
struct DownlinkPart {
  int fragment = 0;
  int64_t version = 0;
  CodecKind codec = CodecKind::kFp32;
  std::vector<SegmentRef> segments;
};

// A committed version: what is published.
struct CommitRecord {
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  Digest128 digest;                 // XXH3-128 of the outer parameters (fp32, canonical layout).
  std::vector<std::string> pools;   // In the order of the sum.
  std::string evaluator;            // As given to the round; the store does not look at it.
  double downlink_nmse = 0;         // ||d - deq(Q(d))||^2 / ||d||^2; 0 if exact.
  double outer_gradient_norm = 0;   // L2 of the weighted mean D. Seed, skipped: 0.
  double outer_parameter_norm = 0;  // L2 of theta after the step.
  int64_t downlink_bytes = 0;       // Coded bytes of all segments. Seed, skipped: 0.
  // MeanCosine of the contributions. Not kept: nothing after a restart.
  std::optional<double> contribution_cosine;
};

// What recovery needs to make the version again. A frame of type kCommit: the encoded record.
struct LoggedCommit {
  struct Input {
    uint64_t sequence = 0;  // Of the part's frame.
    Digest128 body_digest;
  };
  CommitRecord record;
  uint32_t arithmetic = 0;  // Version of the rules by which the result was computed.
  Digest128 previous;       // Of the parameters before. Zero before the seed.
  uint64_t first_downlink =
      0;  // Sequence of the first part of its downlink; parts of failed attempts are older.
  std::vector<double> weights;             // By pool of record.pools.
  std::vector<std::vector<Input>> inputs;  // Likewise.
};

std::string EncodePart(const PartInfo& part);
std::string EncodeDownlinkPart(const DownlinkPart& part);
std::string EncodeCommit(const LoggedCommit& commit);

// Each begins with its own size. Bytes of the record at the beginning of a body, read from its first
// kRecordSizeBytes. DATA_LOSS: it cannot be.
inline constexpr int64_t kRecordSizeBytes = 4;
absl::StatusOr<int64_t> DecodeRecordSize(absl::string_view bytes, int64_t body_bytes);

absl::StatusOr<PartInfo> DecodePart(absl::string_view bytes);
absl::StatusOr<DownlinkPart> DecodeDownlinkPart(absl::string_view bytes);
absl::StatusOr<LoggedCommit> DecodeCommit(absl::string_view bytes);

}  // namespace longhaul
