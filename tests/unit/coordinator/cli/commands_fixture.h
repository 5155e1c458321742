// The command line against a coordinator over real gRPC, which answers as the test says.
#pragma once

#include <string>
#include <vector>

#include "cli_runner.h"
#include "fake_coordinator.h"
#include "gtest/gtest.h"
#include "sample_job.h"

namespace longhaul::cli {

class CommandsTest : public ::testing::Test {
 protected:
  CliResult RunCli(std::vector<std::string> args) {
    args.push_back("--server=" + fake_.address());
    return run_(args);
  }
  void ServeJobsAndPools() {
    fake_.list = [](const v1::ListJobsRequest&, v1::ListJobsResponse* response) {
      *response->add_jobs() = SampleJob();
      return grpc::Status::OK;
    };
    fake_.pools = [](const v1::ListPoolsRequest&, v1::ListPoolsResponse* response) {
      response->add_pools()->set_name("east");
      response->mutable_pools(0)->set_state(v1::PARTICIPATING);
      return grpc::Status::OK;
    };
    fake_.Start();
  }
  std::string NobodyListensAt() {
    FakeCoordinator gone;
    gone.Start();
    return gone.address();
  }

  FakeCoordinator fake_;
  CliRunner run_;
};

}  // namespace longhaul::cli
