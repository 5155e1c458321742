// A TaskRunner that runs tasks when a test calls it, in their order, on the calling thread.
// Externally synchronised; tasks may submit more.
#pragma once

#include <deque>
#include <utility>

#include "common/base/task_runner.h"

namespace longhaul {

class HandCrank : public TaskRunner {
 public:
  bool Submit(Task task) override {
    if (refuses) return false;
    tasks_.push_back(std::move(task));
    return true;
  }
  // Returns false if no task waits.
  bool RunOne() {
    if (tasks_.empty()) return false;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    std::move(task)();
    return true;
  }
  void RunAll() {
    while (RunOne()) {
    }
  }
  // The tasks that wait are lost, as if their process ended.
  void DropAll() { tasks_.clear(); }
  bool refuses = false;

 private:
  std::deque<Task> tasks_;
};

}  // namespace longhaul
