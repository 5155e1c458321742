// The commands of a coordinator's transcript. Pools are named a, b, ...; their incarnation is 1
// unless given (inc=2).
//
//   at 12s                                  the time; nothing is told to the core
//   submit JOB fragments=1 h=4 tau=1 steps=8 [min=1] [max=64] [names=a,b] [evaluate=1]
//          [checkpoint=0] [no-final] [cuda] [needs=codec:e3m0] [from=JOB]
//          [guard=pause|fail] [after=20] [leave-out=2]
//                                          of a model of bytes; leave-out: guard.outer, of which
//                                          so many rounds say what is usual
//   cancel JOB [reason=R]
//   pause JOB [by=U] [reason=R]
//   resume JOB [by=U]
//   ask JOB                                 a checkpoint is wanted
//   delete JOB
//   removed JOB [failed]                    its files are gone, or not yet
//   freed JOB                               its state is not in memory any more, after its end
//   join POOL... [cuda=1] [can=codec:e3m0]
//   heartbeat POOL... [job=JOB step=N] [draining=1] [stopping=1] [stopped=1] [finished=1]
//   leave POOL... [return=10m]
//   ready JOB POOL... [rank=0]              a rank opened WatchPlan
//   contribute JOB POOL... fragment=0 version=1 [kind=outer]
//                                           a contribution is whole
//   evaluated JOB POOL [final] [own] [loss=1.5]
//   failed JOB POOL field=F hint=H          the pool cannot go on with the job
//   opened JOB                              how works ended: the store is open,
//   measured JOB NORM... fragment=0 version=1 [cosines=C,C,...] [others=C,C,...]
//                                           the contributions in their order,
//   applied JOB fragment=0 version=1        the commit is durable,
//   checkpointed JOB [cycle=N] [last]       the final checkpoint is written (or a cycle's, or that
//                                           of a job that was cancelled or failed),
//   open-failed JOB [full] [not-finite]     or not; full: the disk was, it may succeed later
//   apply-failed JOB fragment=0 version=1 [full] [not-finite] [damaged=POOL]
//                                           not-finite: the initial values; damaged: a contribution
//   checkpoint-failed JOB [cycle=N] [last] [full]
//   store-failed JOB
//   closed JOB                              nothing holds the store any more
//   log-removed JOB [needed] [unusable] [failed] [damaged]
//                                           needed: no, it holds what no checkpoint has; unusable:
//                                           so, and its spec is not understood; failed: it may
//                                           succeed later; damaged: the last checkpoint is
//   removed JOB [failed]                    the files of a deleted job
//   expire JOB...                           they ended so long ago that they are deleted
//   tick
//   restart [unusable=JOB] [memory=GB]      the coordinator starts anew from what was made durable
//   show JOB                                state, places and versions, and what it waits for
//   pools                                   what each pool does
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/core/coordinator.h"
#include "tests/scenarios/transcript.h"

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
  Lines Pause(const Command& c);
  Lines Resume(const Command& c);
  Lines Ask(const Command& c);
  Lines Delete(const Command& c);
  Lines Removed(const Command& c);
  Lines Expire(const Command& c);
  Lines Closed(const Command& c);
  Lines LogRemoved(const Command& c);
  Lines Join(const Command& c);
  Lines Heartbeat(const Command& c);
  Lines Leave(const Command& c);
  Lines Ready(const Command& c);
  Lines Contribute(const Command& c);
  Lines Evaluated(const Command& c);
  Lines Failed(const Command& c);
  Lines Opened(const Command& c);
  Lines Measured(const Command& c);
  Lines Applied(const Command& c);
  Lines Checkpointed(const Command& c);
  Lines OpenFailed(const Command& c);
  Lines ApplyFailed(const Command& c);
  Lines CheckpointFailed(const Command& c);
  Lines StoreFailed(const Command& c);
  Lines Tick(const Command& c);
  Lines Restart(const Command& c);
  Lines Show(const Command& c);
  Lines Pools(const Command& c);

  Lines Step(const coordinator::Event& event);
  void Save(const coordinator::Record& record);

  // What the states of jobs may take. Those without memory=GB take nothing.
  int64_t memory_ = 100'000'000'000;

  absl::Time now_ = absl::UnixEpoch();
  // What is durable: the records of each job, and what its store holds. By id.
  std::vector<std::string> order_;
  std::vector<std::string> removing_;
  std::map<std::string, coordinator::RecoveredJob> stored_;
  std::set<std::string> cleaned_up_;
  // The job of the last submit.
  coordinator::RecoveredJob submitted_;
  std::map<std::string, std::vector<coordinator::RecoveredFragment>> fragments_;
  // What the next commit of a fragment keeps.
  std::map<std::pair<std::string, int>, OuterNote> applying_;
  coordinator::Coordinator core_{{.memory = memory_}, coordinator::Recovery{}, now_};
};

}  // namespace longhaul
