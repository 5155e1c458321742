// Runs works one after another, in the order of submission, on a thread and a stream of its own
// while the caller computes. The engine's collectives are such works: every rank submits the same
// ones in the same order, so they match, however the ranks differ in speed.
//
// On a device a work runs after everything that was enqueued on the caller's stream before Submit.
// What the caller enqueues there after Wait runs after the work. In between, nobody else may use
// the buffers of the work.
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

class StreamQueue {
 public:
  // Ascending, from 1. 0: there is nothing to wait for.
  using Ticket = int64_t;

  // Waits for the work that runs, and drops those that have not begun.
  virtual ~StreamQueue() = default;

  // `name` says what the work does, for errors. Does not block.
  virtual Ticket Submit(std::string name, std::function<absl::Status()> work) = 0;
  // Blocks until the work of this ticket and all works before it are done. After an error no
  // further work runs, and every Wait returns that error. DEADLINE_EXCEEDED, also: a work has
  // begun, and the device does not come to it, since it has not done what was enqueued before.
  virtual absl::Status Wait(Ticket ticket) = 0;
};

struct StreamQueueOptions {
  // Receives a span for each work, on this track. May be null, or must outlive the queue.
  Trace* trace = nullptr;
  Trace::Track track = Trace::Track::kCollectives;
  // The device prefers its works to those of other streams.
  bool urgent = true;
  // How long the device may take to come to a work. How long other ranks may take is a matter of
  // the works.
  Patience patience = absl::Minutes(5);
};
std::unique_ptr<StreamQueue> MakeStreamQueue(c10::Device device, StreamQueueOptions options = {});
// A queue that runs each work inside Submit, for pools of one rank whose collectives do nothing.
std::unique_ptr<StreamQueue> MakeImmediateQueue();

}  // namespace longhaul
