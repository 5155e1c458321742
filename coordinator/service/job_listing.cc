#include "coordinator/service/job_listing.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_conversion.h"
#include "coordinator/effects/refusal.h"
#include "coordinator/service/message_size.h"

namespace longhaul::coordinator {
namespace {

// How many rows are completed at a time: other tasks of the owner thread wait for no more.
constexpr int kCompletedAtOnce = 32;

}  // namespace

JobListing::JobListing(const ServiceContext& service, int64_t before, int size,
                       v1::ListJobsResponse* response, grpc::ServerUnaryReactor* reactor)
    : service_(service), before_(before), size_(size), response_(response), reactor_(reactor) {}

void JobListing::Begin(const ServiceContext& service, int64_t before, int size,
                       v1::ListJobsResponse* response, grpc::ServerUnaryReactor* reactor) {
  std::shared_ptr<JobListing>(new JobListing(service, before, size, response, reactor))->ReadNext();
}

void JobListing::ReadNext() {
  if (!service_.reader->Submit([self = shared_from_this()] { self->Read(); })) End(Overloaded());
}

void JobListing::Read() {
  wanted_ = std::min(size_ - response_->jobs_size(), kCompletedAtOnce);
  absl::StatusOr<std::vector<ListedJob>> rows =
      ReadListed(service_.control->meta(), before_, wanted_);
  if (!rows.ok()) return End(rows.status());
  read_ = *std::move(rows);
  const bool posted = service_.owner->PostRead(
      [self = shared_from_this()] { self->Complete(); },
      [self = shared_from_this()](const absl::Status& status) { self->End(status); });
  if (!posted) End(Overloaded());
}

void JobListing::Complete() {
  complete_.clear();
  for (const ListedJob& row : read_)
    complete_.push_back(Bounded(ReportListed(*service_.control, row)));
  if (!service_.reader->Submit([self = shared_from_this()] { self->Add(); })) End(Overloaded());
}

void JobListing::Add() {
  for (size_t i = 0; i < complete_.size(); ++i) {
    bytes_ += complete_[i].ByteSizeLong();
    if (bytes_ > kPageBytesMax && response_->jobs_size() > 0) return EndWithToken();
    *response_->add_jobs() = std::move(complete_[i]);
    before_ = read_[i].record.order;
  }
  if (static_cast<int>(read_.size()) < wanted_) return End(absl::OkStatus());
  if (response_->jobs_size() >= size_) return EndWithToken();
  ReadNext();
}

void JobListing::EndWithToken() {
  response_->set_next_page_token(absl::StrCat("before-", before_));
  End(absl::OkStatus());
}

void JobListing::End(const absl::Status& status) { reactor_->Finish(ToGrpcStatus(status)); }

}  // namespace longhaul::coordinator
