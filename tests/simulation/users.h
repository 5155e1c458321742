// The simulated programs of users. They submit jobs (some begin with the newest checkpoint of
// another job), ask for checkpoints, pause, resume, cancel and delete. Like the product's programs
// they repeat a call until it is answered. A call that is refused only for now is tried again.
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

  // The name may be that of a deleted job.
  void Submit(const v1::JobSpec& spec);
  void AskCheckpoint(const std::string& name);
  void Cancel(const std::string& name);
  // `then` runs when the call was answered.
  // `then`: called once it is paused. Empty: it stays so for good.
  void Pause(const std::string& name, std::function<void()> then = nullptr);
  void Resume(const std::string& name);
  // Deletes the job as soon as it has ended. `then` runs when its name is free.
  void Delete(const std::string& name, std::function<void()> then);

  // Whether every call was answered, or given up because no other try can help.
  bool done() const { return calls_ == 0; }

 private:
  // Makes the call now, if the coordinator runs, and again and again until `call` returns true.
  void Repeat(std::function<bool()> call);
  // Finds the job of the first submission, whatever its state is.
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
