// Runs a rank's collectives one after another, in the order of submission, while the caller
// computes. Every rank submits the same collectives in the same order, so they match, however the
// ranks differ in speed.
//
// On a device the queue has its own stream. A work runs after everything that was enqueued on the
// caller's stream before Submit. What the caller enqueues there after Wait runs after the work. In
// between, nobody else may use the buffers of the work.
//
// Called from one thread. Throws nothing: errors of torch are errors of the queue.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "c10/core/Device.h"
#include "common/base/patience.h"
#include "worker/engine/trace.h"

namespace longhaul {

class CollectiveQueue {
 public:
  // Ascending, from 1. 0: there is nothing to wait for.
  using Ticket = int64_t;

  // Waits for the work that runs, and drops those that have not begun.
  virtual ~CollectiveQueue() = default;

  // `name` says what the work does, for errors. Does not block.
  virtual Ticket Submit(std::string name, std::function<absl::Status()> work) = 0;
  // Blocks until the work of this ticket and all works before it are done. After an error no
  // further work runs, and every Wait returns that error. DEADLINE_EXCEEDED, also: a work has
  // begun, and the device does not come to it, since it has not done what was enqueued before.
  virtual absl::Status Wait(Ticket ticket) = 0;
};

// A queue with its own thread. `trace` receives a span for each work; it may be null, or must
// outlive the queue. `patience`: how long the device may take to come to a work. How long ranks may
// take is a matter of the works.
std::unique_ptr<CollectiveQueue> MakeCollectiveQueue(c10::Device device, Trace* trace = nullptr,
                                                     Patience patience = absl::Minutes(5));
// A queue that runs each work inside Submit, for pools of one rank whose collectives do nothing.
std::unique_ptr<CollectiveQueue> MakeImmediateQueue();

}  // namespace longhaul
