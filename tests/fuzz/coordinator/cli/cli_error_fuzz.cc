// What the CLI makes of a call that failed: the server's status as people and scripts see it.
//   input: u8 form of the output | u8 code | string message | details
#include <sstream>

#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "coordinator/cli/outcome.h"
#include "tests/fuzz/coordinator/cli/plain_text.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace longhaul::fuzz::cli_error_fuzz {

std::vector<Seed> Seeds() {
  const auto seed = [](int form, const absl::Status& status) {
    const grpc::Status wire = ToGrpcStatus(status);
    return FuzzWriter()
        .Byte(form)
        .Byte(wire.error_code())
        .String(wire.error_message())
        .Bytes(wire.error_details())
        .Take();
  };
  const absl::Status refused = BadRequestError({{"sync.h", "is 0"}, {"sync.tau", "is above h"}});
  return {{"table", seed(0, refused)},
          {"json", seed(1, refused)},
          {"yaml", seed(2, WithErrorInfo(absl::NotFoundError("no job a"),
                                         {"JOB_UNKNOWN", {{"hint", "list them"}}}))},
          {"retry", seed(1, WithRetryDelay(absl::UnavailableError("busy"), absl::Seconds(2)))}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const auto format = static_cast<cli::OutputFormat>(input.Choice(0, 2));
  const int code = input.Choice(0, 31);  // Beyond them gRPC's own enum has no value.
  const std::string message(input.String()), details(input.Rest());
  const absl::Status status =
      FromGrpcStatus(grpc::Status(static_cast<grpc::StatusCode>(code), message, details));
  if (status.ok()) return 0;
  std::ostringstream out, err;
  std::istringstream in;
  ManualClock clock;
  const cli::Environment environment{.in = in, .out = out, .err = err, .clock = clock};
  cli::Write(cli::ErrorOfCall(status, "localhost:7070"), format, environment);
  CheckPlainText(err.str());
  if (format == cli::OutputFormat::kJson) {
    LH_CHECK(Json::accept(out.str()), "an envelope is JSON whatever the server said");
  }
  return 0;
}

}  // namespace longhaul::fuzz::cli_error_fuzz
