// Runs a rank's collectives one after the other, in the order in which they were submitted, beside
// what the caller computes. Every rank submits the same ones in the same order, so that gathers and
// reductions meet their peers however ranks differ in speed.
//
// On a device the queue has a stream of its own: what is submitted runs behind all that the caller's
// stream was given before Submit, and what the caller's stream is given after Wait runs behind it.
// Nobody else may touch the work's buffers in between.
//
// Used from one thread. Throws as torch does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "c10/core/Device.h"
#include "worker/engine/trace.h"

namespace longhaul {

class CollectiveQueue {
 public:
  using Ticket = int64_t;  // Ascending, from 1. 0: there is nothing to wait for.

  // Ends what runs, and drops what was not begun.
  virtual ~CollectiveQueue() = default;

  // `name` says what the work does, for errors. Does not block.
  virtual Ticket Submit(std::string name, std::function<absl::Status()> work) = 0;
  // Blocks until the work of this ticket and all before it are done. After a work failed no more is
  // run, and its error is returned from here on.
  virtual absl::Status Wait(Ticket ticket) = 0;
};

// With a thread of its own. `trace`: gets a span for each work; may be null, else outlives the queue.
std::unique_ptr<CollectiveQueue> MakeCollectiveQueue(c10::Device device, Trace* trace = nullptr);
// Runs each work inside Submit: for pools of one rank, whose collectives do nothing.
std::unique_ptr<CollectiveQueue> MakeImmediateQueue();

}  // namespace longhaul
