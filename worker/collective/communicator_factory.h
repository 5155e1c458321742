// Makes the communicator of a rank process from its configuration.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/collective/communicator.h"
#include "worker/collective/rendezvous.h"

namespace longhaul {

enum class CommunicatorKind { kThread, kGloo, kNccl };

struct CommunicatorOptions {
  CommunicatorKind kind = CommunicatorKind::kGloo;
  int rank = 0;
  int size = 1;
  Rendezvous* rendezvous = nullptr;    // gloo, nccl; used during the call only
  absl::Duration timeout;              // gloo, nccl: for connecting
  std::string hostname = "127.0.0.1";  // gloo: numeric address that the peers can reach
  int device = 0;                      // nccl: CUDA device ordinal
  std::string module_folder;           // nccl: where the CUDA module is; empty: near the program
};

// INVALID_ARGUMENT: the options contradict each other, among them kThread with more than one rank,
// whose communicators are made together (MakeThreadCommunicators). FAILED_PRECONDITION: kNccl where
// no device, driver or module is. Else the errors of MakeGlooCommunicator and MakeNcclCommunicator.
absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const CommunicatorOptions& options);

// "thread", "gloo" or "nccl". INVALID_ARGUMENT otherwise.
absl::StatusOr<CommunicatorKind> ParseCommunicatorKind(absl::string_view name);

}  // namespace longhaul
