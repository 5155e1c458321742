// What this machine does, as longhaul-rank measures it (worker/measure): for forecasts of jobs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "longhaul/v1/plan.pb.h"
#include "worker/agent/agent_options.h"

namespace longhaul {

// Measuring, with the start of the program, takes at most so long.
inline constexpr absl::Duration kMeasureMax = absl::Seconds(5);

// Starts options.rank_program with --measure and waits for its end, for at most `limit`. Uses the
// ranks' threads and cores of `options`. Errors: those of starting it; DEADLINE_EXCEEDED: it did
// not end in time, and is killed; FAILED_PRECONDITION: it failed, with its last words, or what it
// wrote is not valid.
absl::StatusOr<v1::HostFigures> MeasureMachine(const AgentOptions& options, absl::Duration limit);

// Sets options.figures: those kept in --state-dir, or in --work-dir if there is none, if they are
// of this machine, its ranks and this version; else measured now, and kept. Logs what was measured,
// or why nothing was: a pool works without. Blocks for at most about `limit`, and as long again
// while another worker of this user measures on this machine. Zero: figures that are kept are used,
// and nothing is measured.
void FindMachineFigures(absl::Duration limit, AgentOptions& options);

// While the object lives, other workers of this user on this machine wait, so that they measure
// neither its speed nor how busy its cores are while this one does. Waits for its turn for at most
// kMeasureMax.
class MeasuringTurn {
 public:
  MeasuringTurn();
  ~MeasuringTurn();
  MeasuringTurn(const MeasuringTurn&) = delete;
  MeasuringTurn& operator=(const MeasuringTurn&) = delete;

 private:
  int socket_ = -1;
};

// For programs: the keys of HostFigures in the envelope of the CLI's answers, on one line.
std::string FiguresJson(const v1::HostFigures& figures);
// For people.
std::string FiguresText(const v1::HostFigures& figures);

}  // namespace longhaul
