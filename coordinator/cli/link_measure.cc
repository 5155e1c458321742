#include "coordinator/cli/link_measure.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/wire/proto_values.h"

namespace longhaul::cli {
namespace {

constexpr int kCalls = 5;
constexpr int kFirstBytes = 64 << 10, kBytesMax = 1 << 20;
constexpr absl::Duration kEnough = absl::Milliseconds(1500);

}  // namespace

absl::StatusOr<double> RateOf(const Clock& clock, const std::function<absl::Status(int)>& call) {
  const absl::Time begun = clock.Now();
  double best = 0;
  for (int bytes = kFirstBytes; clock.Now() - begun < kEnough;
       bytes = std::min(2 * bytes, kBytesMax)) {
    const absl::Time before = clock.Now();
    LH_RETURN_IF_ERROR(call(bytes));
    const absl::Duration took = std::max(clock.Now() - before, absl::Microseconds(10));
    best = std::max(best, bytes / absl::ToDoubleSeconds(took));
    if (bytes == kBytesMax && clock.Now() - begun > kEnough / 3) break;
  }
  return best;
}

absl::StatusOr<LinkFacts> MeasureLink(Client& client, const Clock& clock) {
  LinkFacts facts;
  LH_RETURN_IF_ERROR(client.Describe().status());  // Connects.
  std::vector<absl::Duration> trips;
  for (int i = 0; i < kCalls; ++i) {
    const absl::Time before = absl::Now();
    LH_ASSIGN_OR_RETURN(v1::DescribeResponse server, client.Describe());
    const absl::Duration trip = absl::Now() - before;
    if (trips.empty() || trip < *std::min_element(trips.begin(), trips.end())) {
      facts.clock_ahead = TimeFromProto(server.now()) - (before + trip / 2);
    }
    facts.server = std::move(server);
    trips.push_back(trip);
  }
  std::sort(trips.begin(), trips.end());
  facts.round_trip = trips[kCalls / 2];
  LH_ASSIGN_OR_RETURN(facts.bytes_per_second_up,
                      RateOf(clock, [&](int bytes) { return client.Probe(bytes, 0); }));
  LH_ASSIGN_OR_RETURN(facts.bytes_per_second_down,
                      RateOf(clock, [&](int bytes) { return client.Probe(0, bytes); }));
  return facts;
}

}  // namespace longhaul::cli
