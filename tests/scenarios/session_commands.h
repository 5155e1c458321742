// The commands of a session's transcript.
//
//   plan steps=8 fragments=1 h=4 tau=1 [start=0] [ordinal=0] versions=-1 [contributed=0] [seed]
//        [no-final] [evaluate-pool=0]
//   commit FRAGMENT version=1 [kind=outer] [evaluate] [contributed]
//   seed
//   whole FRAGMENT version=0
//   pulled FRAGMENT version=1
//   agreed 0,0 0,0          the versions of each rank
//   done STEP [drain]       an inner step ran, and is the last
//   drain [stopped]         the pool was asked to stop; another rank has
//   pushed FRAGMENT version=1
//   push-refused FRAGMENT version=1 reason=ROUND_CLOSED [have=1]
//   pull-refused FRAGMENT reason=VERSION_MISMATCH
//   plan-refused reason=JOB_ENDED
//   disconnected
//   ended REASON
#pragma once

#include <string>
#include <vector>

#include "tests/scenarios/transcript.h"
#include "worker/session/core/session.h"

namespace longhaul {

class SessionScenario {
 public:
  std::vector<std::string> Run(const Command& command);

 private:
  using Lines = std::vector<std::string>;
  using Handler = session::Event (*)(const Command&);

  session::Session core_;
};

}  // namespace longhaul
