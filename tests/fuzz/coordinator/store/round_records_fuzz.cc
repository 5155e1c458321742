// Records of the log, and the last check of a part before it gets there.
//   input: u8 which | u32 elements of the fragment | string record | payload of a part
#include <string>
#include <vector>

#include "common/layout/fragment_layout.h"
#include "coordinator/store/part_check.h"
#include "coordinator/store/round_records.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"

namespace longhaul::fuzz::round_records_fuzz {
namespace {

void CheckDecoded(const absl::Status& status) {
  CheckDocumented(status, {absl::StatusCode::kDataLoss});
}

// So that no reader's arithmetic on them overflows.
void CheckSegments(const std::vector<SegmentRef>& segments) {
  for (const SegmentRef& segment : segments) {
    LH_CHECK(segment.elements >= 1 && segment.elements <= kTileElements, "elements of a segment");
    LH_CHECK(segment.first_block >= 0 && segment.first_block < int64_t{1} << 40, "a block");
  }
}

void RunPart(absl::string_view record, FuzzInput& input, int64_t elements) {
  const absl::StatusOr<PartInfo> part = DecodePart(record);
  CheckDecoded(part.status());
  if (!part.ok()) return;
  CheckSegments(part->segments);
  const std::string encoded = EncodePart(*part);
  LH_CHECK(EncodePart(*DecodePart(encoded)) == encoded, "what was read can be written");
  const absl::string_view payload = input.Rest();
  const absl::Status checked = CheckPart(*part, payload.size(), elements);
  CheckDocumented(checked, {absl::StatusCode::kInvalidArgument});
  if (!checked.ok()) return;
  const auto codec = MakeCodec({.kind = part->codec}).value();
  SegmentChecker checker(codec.get());
  absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(payload.data()), payload.size());
  for (const SegmentRef& segment : part->segments) {
    const size_t size = codec->PayloadBytes(segment.elements);
    CheckDocumented(checker.Check(segment, bytes.first(size)),
                    {absl::StatusCode::kInvalidArgument});
    bytes.remove_prefix(size);
  }
}

void RunDownlink(absl::string_view record) {
  const absl::StatusOr<DownlinkPart> part = DecodeDownlinkPart(record);
  CheckDecoded(part.status());
  if (!part.ok()) return;
  CheckSegments(part->segments);
  const std::string encoded = EncodeDownlinkPart(*part);
  LH_CHECK(EncodeDownlinkPart(*DecodeDownlinkPart(encoded)) == encoded,
           "what was read can be written");
}

void RunCommit(absl::string_view record) {
  const absl::StatusOr<LoggedCommit> commit = DecodeCommit(record);
  CheckDecoded(commit.status());
  if (!commit.ok()) return;
  LH_CHECK(commit->weights.size() == commit->record.pools.size(), "a weight for each pool");
  LH_CHECK(commit->inputs.size() == commit->record.pools.size(), "parts for each pool");
  const std::string encoded = EncodeCommit(*commit);
  LH_CHECK(EncodeCommit(*DecodeCommit(encoded)) == encoded, "what was read can be written");
}

}  // namespace

std::vector<Seed> Seeds() {
  const auto seed = [](int which, const std::string& record, absl::string_view payload = "") {
    return FuzzWriter().Byte(which).Put(uint32_t{299}).String(record).Bytes(payload).Take();
  };
  const std::vector<SegmentRef> segments = {{0, 128, 0}, {1, 172, 0}};
  const std::string payload(1200, '\x01');
  LoggedCommit commit;
  commit.record = {.round = {.version = 4},
                   .pools = {"oslo", "kyoto"},
                   .incarnations = {"1", ""},
                   .evaluator = "oslo"};
  commit.arithmetic = 1;
  commit.first_downlink = 7;
  commit.weights = {1, 1};
  commit.inputs = {{{3, {}}}, {{4, {}}, {5, {}}}};
  return {
      {"part", seed(0, EncodePart({{0, 1, RoundKind::kOuter}, "oslo", CodecKind::kFp32, segments}),
                    payload)},
      {"part_e3m0",
       seed(0, EncodePart({{0, 1, RoundKind::kOuter}, "oslo", CodecKind::kE3m0, {{0, 300, 2}}}),
            payload.substr(0, 153))},
      {"downlink", seed(1, EncodeDownlinkPart({1, 4, CodecKind::kBf16, segments}))},
      {"commit", seed(2, EncodeCommit(commit))}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const uint8_t which = input.Byte();
  const int64_t elements = int64_t{input.Take<uint32_t>()} + 1;
  const absl::string_view record = input.String();
  if (which % 3 == 0) RunPart(record, input, elements);
  if (which % 3 == 1) RunDownlink(record);
  if (which % 3 == 2) RunCommit(record);
  CheckDecoded(DecodeRecordSize(record, record.size()).status());
  return 0;
}

}  // namespace longhaul::fuzz::round_records_fuzz
