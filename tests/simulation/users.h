// The programs of users. They submit jobs, also such that begin with the newest checkpoint of
// another, ask for checkpoints, cancel, and delete. A call is repeated until it is answered, as the
// product's programs do, and one that is refused for the time being is tried again.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "longhaul/v1/job.pb.h"
#include "tests/simulation/coordinator_node.h"
#include "tests/simulation/world.h"

namespace longhaul::simulation {

class Users {
 public:
  Users(World* world, CoordinatorNode* coordinator) : world_(world), coordinator_(coordinator) {}

  // The name may be that of a job that was deleted.
  void Submit(const v1::JobSpec& spec);
  void AskCheckpoint(const std::string& name);
  void Cancel(const std::string& name);
  // As soon as it has ended. `then` runs when its name is free.
  void Delete(const std::string& name, std::function<void()> then);

  // Every call was answered, or given up for a reason.
  bool done() const { return calls_ == 0; }

 private:
  // Makes the call now, if the coordinator lives, and again after a while until it returns true: it
  // needs no other try.
  void Repeat(std::function<bool()> call);
  // Finds the job that the first submission made, whatever came of it.
  void SubmitAgain(const v1::JobSpec& spec, const std::string& id);
  // Whether no other try can help.
  bool IsRefused(const v1::JobSpec& spec, const std::string& id, const absl::Status& status);

  World* const world_;
  CoordinatorNode* const coordinator_;
  int calls_ = 0;
  // How many jobs had each name.
  std::map<std::string, int> submissions_;
};

}  // namespace longhaul::simulation
