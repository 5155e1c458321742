// The bytes of the TCP rendezvous, as they arrive: any number at a time.
//   input: u8 which | u8 ranks | bytes of a request or a reply
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/collective/rendezvous_round.h"
#include "worker/collective/rendezvous_wire.h"

namespace longhaul::fuzz {
namespace {

constexpr absl::string_view kToken = "secret";

void RunRequest(absl::string_view bytes, int ranks) {
  const auto request = DecodeRequest(bytes, kToken);
  CheckDocumented(request.status(),
                  {absl::StatusCode::kUnauthenticated, absl::StatusCode::kInvalidArgument});
  // A refusal or a request does not become another when more bytes come one by one.
  for (size_t size = 0; size < std::min<size_t>(bytes.size(), 128); ++size) {
    const auto early = DecodeRequest(bytes.substr(0, size), kToken);
    if (early.ok() && !early->has_value()) continue;
    LH_CHECK(!request.ok() || (early.ok() && size == bytes.size()),
             "what is decided stays decided");
    break;
  }
  if (!request.ok() || !request->has_value()) return;
  LH_CHECK(EncodeRequest(kToken, **request) == bytes, "nothing is lost");
  RendezvousRound round(3, ranks);
  const absl::Status joined = round.Join(1, **request);
  CheckDocumented(joined,
                  {absl::StatusCode::kFailedPrecondition, absl::StatusCode::kInvalidArgument});
  if (joined.ok()) {
    CheckDocumented(round.Join(2, **request),
                    {absl::StatusCode::kAlreadyExists, absl::StatusCode::kFailedPrecondition});
    LH_CHECK(round.complete() == (ranks == 1), "complete with all ranks");
  }
  round.Leave(1);
  round.Leave(2);
}

void RunReply(absl::string_view bytes, int ranks) {
  const auto reply = DecodeReply(bytes, ranks);
  if (!reply.has_value() || !reply->ok()) return;
  LH_CHECK(static_cast<int>((*reply)->size()) == ranks, "a blob of each rank");
  const std::string encoded = EncodeReply(*reply);
  LH_CHECK(bytes.substr(0, encoded.size()) == encoded, "nothing is lost");
}

}  // namespace

std::vector<Seed> Seeds() {
  const auto seed = [](int which, const std::string& bytes) {
    return FuzzWriter().Byte(which).Byte(1).Bytes(bytes).Take();
  };
  return {{"request", seed(0, EncodeRequest(kToken, {3, 1, "address"}))},
          {"reply", seed(1, EncodeReply(std::vector<std::string>{"address 0", "address 1"}))},
          {"refusal", seed(1, EncodeReply(absl::AlreadyExistsError("rank 1 came twice")))}};
}

}  // namespace longhaul::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;  // NOLINT: a file of one function
  fuzz::FuzzInput input(data, size);
  const bool is_reply = input.Flag();
  const int ranks = input.Choice(1, kRendezvousRanksMax - 1);
  if (is_reply) {
    fuzz::RunReply(input.Rest(), ranks);
  } else {
    fuzz::RunRequest(input.Rest(), ranks);
  }
  return 0;
}
