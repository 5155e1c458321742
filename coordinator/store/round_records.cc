#include "coordinator/store/round_records.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/layout/fragment_layout.h"
#include "common/wire/proto_values.h"
#include "coordinator/store/wire.h"
#include "longhaul/store/v1/records.pb.h"

namespace longhaul {
namespace {

// A bound for the first block of a segment.
constexpr int64_t kFirstBlockMax = (int64_t{1} << 40) / kBlockElements;

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("a ", what, " record of the log does not decode"));
}

// Serializes the head and puts its size, which includes itself, before it.
std::string WithSize(const google::protobuf::MessageLite& head) {
  WireWriter out;
  out.U32(kRecordSizeBytes + head.ByteSizeLong());
  std::string bytes = out.Take();
  head.AppendToString(&bytes);
  return bytes;
}

// Returns false if the size before the head is wrong, or if it is not such a message.
bool ParseHead(absl::string_view bytes, google::protobuf::MessageLite* head) {
  WireReader in(bytes);
  const bool sized = in.U32() == bytes.size() && in.ok();
  return sized && head->ParseFromArray(in.rest().data(), static_cast<int>(in.rest().size()));
}

using SegmentProtos = google::protobuf::RepeatedPtrField<v1::Segment>;

void PutSegments(const std::vector<SegmentRef>& segments, SegmentProtos* protos) {
  protos->Reserve(static_cast<int>(segments.size()));
  for (const SegmentRef& segment : segments) {
    v1::Segment& proto = *protos->Add();
    proto.set_first_block(segment.first_block);
    proto.set_elements(segment.elements);
    proto.set_base_exponent(segment.base_exponent);
  }
}

// Returns false if a segment is impossible.
bool GetSegments(const SegmentProtos& protos, std::vector<SegmentRef>* segments) {
  segments->reserve(protos.size());
  for (const v1::Segment& proto : protos) {
    if (proto.first_block() < 0 || proto.first_block() > kFirstBlockMax || proto.elements() < 1 ||
        proto.elements() > kTileElements) {
      return false;
    }
    segments->push_back({proto.first_block(), proto.elements(), proto.base_exponent()});
  }
  return true;
}

void PutOuterNote(const OuterNote& note, store::v1::OuterGuardNote* proto) {
  for (const double norm : note.usual.norms) proto->add_norms(norm);
  for (const double cosine : note.usual.cosines) proto->add_cosines(cosine);
  for (const LeftOut& left_out : note.left_out) {
    store::v1::LeftOutContribution& entry = *proto->add_left_out();
    entry.set_pool(left_out.pool);
    entry.set_incarnation(left_out.incarnation);
    entry.set_why(left_out.why);
  }
}

OuterNote GetOuterNote(const store::v1::OuterGuardNote& proto) {
  OuterNote note{.usual = {{proto.norms().begin(), proto.norms().end()},
                           {proto.cosines().begin(), proto.cosines().end()}}};
  for (const store::v1::LeftOutContribution& entry : proto.left_out())
    note.left_out.push_back({entry.pool(), entry.incarnation(), entry.why()});
  return note;
}

}  // namespace

std::string EncodePart(const PartInfo& part) {
  store::v1::PartHead head;
  head.set_fragment(part.round.fragment);
  head.set_version(part.round.version);
  head.set_kind(ToProto(part.round.kind));
  head.set_codec(static_cast<v1::Codec>(part.codec));
  head.set_pool(part.pool);
  head.set_incarnation(part.incarnation);
  if (part.weight != 1) head.set_weight(part.weight);
  PutSegments(part.segments, head.mutable_segments());
  return WithSize(head);
}

std::string EncodeDownlinkPart(const DownlinkPart& part) {
  store::v1::DownlinkPartHead head;
  head.set_fragment(part.fragment);
  head.set_version(part.version);
  head.set_codec(static_cast<v1::Codec>(part.codec));
  PutSegments(part.segments, head.mutable_segments());
  return WithSize(head);
}

std::string EncodeCommit(const LoggedCommit& commit) {
  const CommitRecord& record = commit.record;
  store::v1::CommitHead head;
  head.set_arithmetic(static_cast<int32_t>(commit.arithmetic));
  head.set_fragment(record.round.fragment);
  head.set_version(record.round.version);
  head.set_kind(ToProto(record.round.kind));
  *head.mutable_previous() = ToProto(commit.previous);
  *head.mutable_digest() = ToProto(record.digest);
  head.set_downlink_nmse(record.downlink_nmse);
  head.set_outer_gradient_norm(record.outer_gradient_norm);
  head.set_outer_parameter_norm(record.outer_parameter_norm);
  head.set_downlink_bytes(record.downlink_bytes);
  head.set_first_downlink(commit.first_downlink);
  head.set_evaluator(record.evaluator);
  if (record.due != absl::InfinitePast()) head.set_due_us(absl::ToUnixMicros(record.due));
  if (!record.outer.usual.norms.empty()) PutOuterNote(record.outer, head.mutable_outer_guard());
  for (size_t i = 0; i < record.pools.size(); ++i) {
    store::v1::CommitContribution& contribution = *head.add_contributions();
    contribution.set_pool(record.pools[i]);
    contribution.set_incarnation(record.incarnations[i]);
    contribution.set_weight(commit.weights[i]);
    for (const LoggedCommit::Input& input : commit.inputs[i]) {
      store::v1::FrameRef& part = *contribution.add_parts();
      part.set_sequence(input.sequence);
      *part.mutable_body_digest() = ToProto(input.body_digest);
    }
  }
  return WithSize(head);
}

absl::StatusOr<int64_t> DecodeRecordSize(absl::string_view bytes, int64_t body_bytes) {
  WireReader in(bytes);
  const int64_t size = in.U32();
  const bool fits = size >= kRecordSizeBytes && size <= body_bytes;
  if (!in.ok() || !fits || size > std::numeric_limits<int>::max()) return Malformed("sized");
  return size;
}

absl::StatusOr<PartInfo> DecodePart(absl::string_view bytes) {
  store::v1::PartHead head;
  PartInfo part;
  if (!ParseHead(bytes, &head)) return Malformed("part");
  const std::optional<RoundKind> kind = RoundKindFromProto(head.kind());
  if (!kind.has_value() || !GetSegments(head.segments(), &part.segments)) return Malformed("part");
  part.round = {head.fragment(), head.version(), *kind};
  part.codec = static_cast<CodecKind>(head.codec());
  part.pool = head.pool();
  part.incarnation = head.incarnation();
  if (head.weight() != 0) part.weight = head.weight();
  return part;
}

absl::StatusOr<DownlinkPart> DecodeDownlinkPart(absl::string_view bytes) {
  store::v1::DownlinkPartHead head;
  DownlinkPart part;
  if (!ParseHead(bytes, &head) || !GetSegments(head.segments(), &part.segments)) {
    return Malformed("downlink");
  }
  part.fragment = head.fragment();
  part.version = head.version();
  part.codec = static_cast<CodecKind>(head.codec());
  return part;
}

absl::StatusOr<LoggedCommit> DecodeCommit(absl::string_view bytes) {
  store::v1::CommitHead head;
  if (!ParseHead(bytes, &head)) return Malformed("commit");
  const std::optional<RoundKind> kind = RoundKindFromProto(head.kind());
  if (!kind.has_value()) return Malformed("commit");
  LoggedCommit commit;
  CommitRecord& record = commit.record;
  commit.arithmetic = static_cast<uint32_t>(head.arithmetic());
  record.round = {head.fragment(), head.version(), *kind};
  commit.previous = DigestFromProto(head.previous());
  record.digest = DigestFromProto(head.digest());
  record.downlink_nmse = head.downlink_nmse();
  record.outer_gradient_norm = head.outer_gradient_norm();
  record.outer_parameter_norm = head.outer_parameter_norm();
  record.downlink_bytes = head.downlink_bytes();
  commit.first_downlink = head.first_downlink();
  record.evaluator = head.evaluator();
  if (head.due_us() != 0) record.due = absl::FromUnixMicros(head.due_us());
  record.outer = GetOuterNote(head.outer_guard());
  for (const store::v1::CommitContribution& contribution : head.contributions()) {
    record.pools.push_back(contribution.pool());
    record.incarnations.push_back(contribution.incarnation());
    commit.weights.push_back(contribution.weight());
    std::vector<LoggedCommit::Input>& inputs = commit.inputs.emplace_back();
    for (const store::v1::FrameRef& part : contribution.parts()) {
      inputs.push_back({part.sequence(), DigestFromProto(part.body_digest())});
    }
  }
  return commit;
}

}  // namespace longhaul
