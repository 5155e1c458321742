// A PoolService that answers as a test decides. Over real gRPC.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "longhaul/v1/pool.grpc.pb.h"

namespace longhaul {

class PoolServer : public v1::PoolService::Service {
 public:
  PoolServer() { Open("127.0.0.1:0"); }
  ~PoolServer() override { Close(); }
  void Open(const std::string& at, std::shared_ptr<const Tls> tls = nullptr) {
    server_ = *Server::Start({.address = at, .tls = std::move(tls)}, {this});
    address = server_->address();
  }
  void Close() { server_.reset(); }

  grpc::Status Join(grpc::ServerContext*, const v1::JoinRequest* request,
                    v1::JoinResponse* response) override {
    absl::MutexLock lock(&mutex_);
    joins.push_back(*request);
    if (!join_error.ok()) return ToGrpcStatus(join_error);
    response->mutable_lease()->set_seconds(lease_seconds);
    *response->mutable_assignment() = assignment;
    *response->mutable_node() = node;
    for (const std::string& capability : capabilities) response->add_capabilities(capability);
    for (const std::string& job : ended_jobs) response->add_ended_jobs(job);
    known = true;
    return grpc::Status::OK;
  }
  grpc::Status Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override {
    absl::MutexLock lock(&mutex_);
    if (!known) return ToGrpcStatus(absl::NotFoundError("join first"));
    beats.push_back(*request);
    if (request->evaluations_size() > 0 && refuse_evaluations) {
      return ToGrpcStatus(absl::InvalidArgumentError("evaluations[0].step: not of this job"));
    }
    response->mutable_lease()->set_seconds(lease_seconds);
    *response->mutable_assignment() = assignment;
    if (request->has_spec_of() == assignment.job_id()) response->mutable_assignment()->clear_spec();
    *response->mutable_node() = node;
    for (const std::string& job : ended_jobs) response->add_ended_jobs(job);
    return grpc::Status::OK;
  }
  grpc::Status Leave(grpc::ServerContext*, const v1::LeaveRequest* request,
                     v1::LeaveResponse*) override {
    absl::MutexLock lock(&mutex_);
    leaves.push_back(*request);
    return grpc::Status::OK;
  }
  // Sets the pool's job from now on.
  void Assign(const std::string& job) {
    absl::MutexLock lock(&mutex_);
    assignment.set_job_id(job);
    assignment.clear_spec();
    if (!job.empty()) assignment.mutable_spec()->set_name(job);
  }
  // Waits until the condition holds.
  void Until(const std::function<bool()>& condition) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&condition), absl::Seconds(60)));
  }

  std::string address;
  absl::Mutex mutex_;
  bool known = false, refuse_evaluations = false;
  int lease_seconds = 1;
  absl::Status join_error;
  std::vector<std::string> capabilities, ended_jobs;
  v1::Assignment assignment;
  v1::NodePlace node;
  std::vector<v1::JoinRequest> joins;
  std::vector<v1::HeartbeatRequest> beats;
  std::vector<v1::LeaveRequest> leaves;

 private:
  std::unique_ptr<Server> server_;
};

}  // namespace longhaul
