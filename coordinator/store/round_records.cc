#include "coordinator/store/round_records.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/store/wire.h"

namespace longhaul {
namespace {

constexpr int64_t kSegmentBytes = 16, kInputBytes = 24;
constexpr int64_t kFirstBlockMax = (int64_t{1} << 40) / kBlockElements;  // Of a fragment's blocks.

// Numbers of longhaul.v1.RoundKind.
uint32_t KindNumber(RoundKind kind) {
  switch (kind) {
    case RoundKind::kSeed:
      return 1;
    case RoundKind::kOuter:
      return 2;
    case RoundKind::kFinal:
      return 3;
    case RoundKind::kSkipped:
      return 4;
  }
  return 0;
}

RoundKind KindOf(uint32_t number, bool* ok) {
  switch (number) {
    case 1:
      return RoundKind::kSeed;
    case 2:
      return RoundKind::kOuter;
    case 3:
      return RoundKind::kFinal;
    case 4:
      return RoundKind::kSkipped;
  }
  *ok = false;
  return RoundKind::kOuter;
}

void WriteSegments(WireWriter& out, const std::vector<SegmentRef>& segments) {
  out.U32(segments.size());
  for (const SegmentRef& segment : segments) {
    out.U64(segment.first_block);
    out.U32(segment.elements);
    out.U32(segment.base_exponent);
  }
}

// A count of things that take `bytes` each, or 0 with *ok = false if the rest cannot hold them.
uint32_t ReadCount(WireReader& in, int64_t bytes, bool* ok) {
  const uint32_t count = in.U32();
  if (in.ok() && static_cast<int64_t>(count) * bytes <= static_cast<int64_t>(in.rest().size())) {
    return count;
  }
  *ok = false;
  return 0;
}

std::vector<SegmentRef> ReadSegments(WireReader& in, bool* ok) {
  std::vector<SegmentRef> segments(ReadCount(in, kSegmentBytes, ok));
  for (SegmentRef& segment : segments) {
    segment.first_block = in.U64();
    segment.elements = in.U32();
    segment.base_exponent = in.U32();
    *ok = *ok && segment.first_block >= 0 && segment.first_block <= kFirstBlockMax &&
          segment.elements >= 1 && segment.elements <= kTileElements;
  }
  return segments;
}

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("a ", what, " record of the log does not decode"));
}

// Puts the record's size, which counts itself, before it.
std::string WithSize(WireWriter record) {
  WireWriter out;
  out.U32(kRecordSizeBytes + record.size());
  out.Bytes(record.bytes());
  return out.Take();
}

}  // namespace

std::string EncodeShard(const ShardInfo& shard) {
  WireWriter out;
  out.U32(shard.fragment);
  out.U64(shard.version);
  out.U32(KindNumber(shard.kind));
  out.U32(static_cast<uint32_t>(shard.codec));
  out.String(shard.pool);
  out.String(shard.incarnation);
  WriteSegments(out, shard.segments);
  return WithSize(std::move(out));
}

std::string EncodeDownlinkPart(const DownlinkPart& part) {
  WireWriter out;
  out.U32(part.fragment);
  out.U64(part.version);
  out.U32(static_cast<uint32_t>(part.codec));
  WriteSegments(out, part.segments);
  return WithSize(std::move(out));
}

std::string EncodeCommit(const LoggedCommit& commit) {
  const CommitRecord& record = commit.record;
  WireWriter out;
  out.U32(commit.arithmetic);
  out.U32(record.fragment);
  out.U64(record.version);
  out.U32(KindNumber(record.kind));
  out.Digest(commit.previous);
  out.Digest(record.digest);
  out.F64(record.downlink_nmse);
  out.F64(record.outer_gradient_norm);
  out.F64(record.outer_parameter_norm);
  out.U64(record.downlink_bytes);
  out.U64(commit.first_downlink);
  out.String(record.evaluator);
  out.U32(record.pools.size());
  for (size_t i = 0; i < record.pools.size(); ++i) {
    out.String(record.pools[i]);
    out.F64(commit.weights[i]);
    out.U32(commit.inputs[i].size());
    for (const LoggedCommit::Input& input : commit.inputs[i]) {
      out.U64(input.sequence);
      out.Digest(input.body_digest);
    }
  }
  return out.Take();
}

absl::StatusOr<int64_t> DecodeRecordSize(absl::string_view bytes, int64_t body_bytes) {
  WireReader in(bytes);
  const int64_t size = in.U32();
  if (!in.ok() || size < kRecordSizeBytes || size > body_bytes) return Malformed("sized");
  return size;
}

absl::StatusOr<ShardInfo> DecodeShard(absl::string_view bytes) {
  WireReader in(bytes);
  ShardInfo shard;
  bool ok = true;
  in.U32();  // the size, checked by the caller
  shard.fragment = in.U32();
  shard.version = in.U64();
  shard.kind = KindOf(in.U32(), &ok);
  shard.codec = static_cast<CodecKind>(in.U32());
  shard.pool = in.String();
  shard.incarnation = in.String();
  shard.segments = ReadSegments(in, &ok);
  if (!ok || !in.ok() || !in.rest().empty()) return Malformed("shard");
  return shard;
}

absl::StatusOr<DownlinkPart> DecodeDownlinkPart(absl::string_view bytes) {
  WireReader in(bytes);
  DownlinkPart part;
  bool ok = true;
  in.U32();
  part.fragment = in.U32();
  part.version = in.U64();
  part.codec = static_cast<CodecKind>(in.U32());
  part.segments = ReadSegments(in, &ok);
  if (!ok || !in.ok() || !in.rest().empty()) return Malformed("downlink");
  return part;
}

absl::StatusOr<LoggedCommit> DecodeCommit(absl::string_view bytes) {
  constexpr int64_t kPoolBytesMin = 16;
  WireReader in(bytes);
  LoggedCommit commit;
  CommitRecord& record = commit.record;
  bool ok = true;
  commit.arithmetic = in.U32();
  record.fragment = in.U32();
  record.version = in.U64();
  record.kind = KindOf(in.U32(), &ok);
  commit.previous = in.Digest();
  record.digest = in.Digest();
  record.downlink_nmse = in.F64();
  record.outer_gradient_norm = in.F64();
  record.outer_parameter_norm = in.F64();
  record.downlink_bytes = in.U64();
  commit.first_downlink = in.U64();
  record.evaluator = in.String();
  const uint32_t pools = ReadCount(in, kPoolBytesMin, &ok);
  for (uint32_t i = 0; i < pools && ok; ++i) {
    record.pools.push_back(in.String());
    commit.weights.push_back(in.F64());
    std::vector<LoggedCommit::Input> inputs(ReadCount(in, kInputBytes, &ok));
    for (LoggedCommit::Input& input : inputs) {
      input.sequence = in.U64();
      input.body_digest = in.Digest();
    }
    commit.inputs.push_back(std::move(inputs));
  }
  if (!ok || !in.ok() || !in.rest().empty()) return Malformed("commit");
  return commit;
}

}  // namespace longhaul
