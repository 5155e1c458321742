// The commands of a coordinator's transcript. Pools are named a, b, ...; their incarnation is 1
// unless given (inc=2).
//
//   at 12s                                  the time; nothing is told to the core
//   submit JOB fragments=1 h=4 tau=1 steps=8 [min=1] [max=64] [names=a,b] [evaluate=1]
//          [checkpoint=0] [no-final]
//   cancel JOB [reason=R]
//   join POOL...
//   heartbeat POOL... [job=JOB step=N]
//   leave POOL...
//   ready JOB POOL... [rank=0]              a rank opened WatchPlan
//   contribute JOB POOL... fragment=0 version=1 [kind=outer]
//                                           a contribution is whole
//   applied JOB fragment=0 version=1        the commit is durable
//   evaluated JOB POOL [final]
//   failed JOB POOL field=F hint=H
//   tick
//   restart                                 the coordinator starts anew from what was made durable
//   show JOB                                state, places and versions, and what it waits for
#pragma once

#include <string>
#include <vector>

#include "coordinator/core/coordinator.h"
#include "tests/scenarios/transcript.h"
#include "tests/simulation/durable_store.h"

namespace longhaul {

class CoordinatorScenario {
 public:
  std::vector<std::string> Run(const Command& command);

 private:
  using Lines = std::vector<std::string>;
  using Handler = Lines (CoordinatorScenario::*)(const Command&);

  Lines At(const Command& c);
  Lines Submit(const Command& c);
  Lines Cancel(const Command& c);
  Lines Join(const Command& c);
  Lines Heartbeat(const Command& c);
  Lines Leave(const Command& c);
  Lines Ready(const Command& c);
  Lines Contribute(const Command& c);
  Lines Applied(const Command& c);
  Lines Evaluated(const Command& c);
  Lines Failed(const Command& c);
  Lines Tick(const Command& c);
  Lines Restart(const Command& c);
  Lines Show(const Command& c);

  Lines Step(const coordinator::Event& event);
  void Save(const coordinator::Action& action);

  absl::Time now_ = absl::UnixEpoch();
  JobOptions submitting_;
  simulation::DurableStore store_;
  coordinator::Coordinator core_{coordinator::CoordinatorOptions{}, coordinator::Recovery{}, now_};
};

}  // namespace longhaul
