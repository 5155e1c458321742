// An Arbiter that lets every pool push and read, and remembers which stores failed. Externally
// synchronised.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "coordinator/fragments/arbiter.h"

namespace longhaul::coordinator {

class WillingArbiter : public Arbiter {
 public:
  absl::Status Judge(const ContributionId&) const override { return absl::OkStatus(); }
  absl::Status CheckReader(const std::string&, const std::string&,
                           const std::string&) const override {
    return absl::OkStatus();
  }
  std::set<int64_t> InitialSteps(const std::string&) const override { return initial_steps; }
  absl::Status Complete(const ContributionId&) override { return absl::OkStatus(); }
  void ReportStoreFailure(const std::string& job, const absl::Status&) override {
    failed.push_back(job);
  }
  std::vector<std::string> failed;
  std::set<int64_t> initial_steps;
};

}  // namespace longhaul::coordinator
