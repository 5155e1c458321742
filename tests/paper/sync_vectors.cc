// sync_vectors: asks the exchange what a schedule does to scalar fragments, over real gRPC on
// localhost.
//
// Trains P fragments (all 1 at the start; each inner step adds D) on M pools, merges fragment i
// first at step (i+1)*H/P and then every H, and prints pool 0's live value and the outer value
// right after each merge, as JSON on standard output. Exit codes: 0 ok, 1 the run failed, 4 bad
// arguments.
#include <algorithm>
#include <cctype>
#include <iostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/rpc/allocator.h"
#include "nlohmann/json.hpp"
#include "tests/paper/exchange_run.h"

int main(int argc, char** argv) {
  longhaul::ExchangeOptions options;
  std::string codec = "fp32", output = "json";
  CLI::App app{
      "Live and outer values of scalar fragments after each merge, through the real coordinator "
      "and wire."};
  app.add_option("--pools", options.pools, "pools M")->check(CLI::Range(1, 64));
  app.add_option("--h", options.h, "inner steps between two rounds of a fragment")
      ->check(CLI::PositiveNumber);
  app.add_option("--fragments", options.fragments, "fragments P")->check(CLI::Range(1, 4096));
  app.add_option("--tau", options.tau, "overlap in inner steps")->check(CLI::NonNegativeNumber);
  app.add_option("--alpha", options.alpha, "share of the local value in the merge")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--inner-delta", options.inner_delta,
                 "added by each inner step: D, or D1,D2,... by pool")
      ->delimiter(',');
  app.add_option("--outer-lr", options.outer_lr, "outer learning rate");
  app.add_option("--outer-momentum", options.outer_momentum, "outer Nesterov momentum");
  app.add_option("--codec", codec, "both ways: fp32, bf16, e3m0, int8, int6, int4, sign1");
  app.add_flag("--error-feedback", options.error_feedback, "on the uplink");
  app.add_option("--feedback-decay", options.feedback_decay,
                 "of the uplink's error feedback, and of the downlink's")
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--final-round", options.final_round, "end with a plain average of all fragments");
  app.add_option("--steps", options.steps, "inner steps")->check(CLI::PositiveNumber);
  app.add_option("-o", output, "json")->check(CLI::IsMember({"json"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 4;
  }
  std::transform(codec.begin(), codec.end(), codec.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  if (!longhaul::v1::Codec_Parse(codec, &options.codec) ||
      options.codec == longhaul::v1::CODEC_UNSPECIFIED) {
    std::cerr
        << "--codec: unknown codec; known: fp32, bf16, e3m0, int8, int6, int4, sign1, topk2\n";
    return 4;
  }
  longhaul::TuneAllocatorForBulk();
  const auto result = longhaul::RunExchange(options);
  if (!result.ok()) {
    std::cerr << result.status() << "\n";
    return absl::IsInvalidArgument(result.status()) || absl::IsUnimplemented(result.status()) ? 4
                                                                                              : 1;
  }
  nlohmann::json fragments = nlohmann::json::array();
  for (const auto& fragment : result->fragments)
    fragments.push_back({{"live", fragment.live}, {"outer", fragment.outer}});
  std::cout << nlohmann::json{{"fragments", fragments}}.dump() << "\n";
  return 0;
}
