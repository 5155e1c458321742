// What an exchange does without a coordinator. Transfers over real gRPC: transfers_test; whole
// rounds: tests/paper and tests/integration.
#include "worker/session/fragment_exchange.h"

#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "longhaul/v1/sync.grpc.pb.h"
#include "worker/replica/synthetic_replica.h"
#include "worker/session/noise_key.h"

namespace longhaul::session {
namespace {

constexpr int64_t kUnitElements = 300;

v1::Plan PlanOf(int fragments) {
  v1::Plan plan;
  for (v1::CodecSpec* codec : {plan.mutable_up(), plan.mutable_down()}) {
    codec->set_codec(v1::FP32);
    codec->set_feedback_decay(1);
  }
  for (int i = 0; i < fragments; ++i) {
    v1::FragmentPlan* fragment = plan.add_fragments();
    fragment->set_fragment(i);
    fragment->set_elements(kUnitElements);
    v1::UnitSpan* unit = fragment->add_units();
    unit->set_unit(i);
    unit->set_elements(kUnitElements);
  }
  return plan;
}

class FragmentExchangeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto replica = SyntheticReplica::Create({.units = 2, .elements = kUnitElements});
    ASSERT_TRUE(replica.ok()) << replica.status();
    replica_ = *std::move(replica);
    // Nobody listens there: transfers are tried again until they are stopped.
    exchange_ = std::make_unique<FragmentExchange>(
        FragmentExchange::Options{
            .transfers = {.coordinator = "127.0.0.1:1", .job = "job", .pool = "site-a"},
            .noise_seed = 7},
        FragmentExchange::Handler{
            .on_event =
                [this](const FragmentExchange::Connection&, const Event& event) {
                  absl::MutexLock lock(&mutex_);
                  events_.push_back(event);
                },
            .on_fault =
                [this](const absl::Status& status) {
                  absl::MutexLock lock(&mutex_);
                  faults_.push_back(status);
                }});
  }
  // Waits for the exchange, so that the test may read what came.
  void End() {
    connection_.stop.request_stop();
    exchange_.reset();
  }

  std::unique_ptr<SyntheticReplica> replica_;
  FragmentExchange::Connection connection_;
  absl::Mutex mutex_;  // Until End, the exchange's threads write.
  std::vector<Event> events_;
  std::vector<absl::Status> faults_;
  std::unique_ptr<FragmentExchange> exchange_;
};

TEST_F(FragmentExchangeTest, LaterPlansKeepTheFragments) {
  ASSERT_TRUE(exchange_->TakePlan(PlanOf(2), *replica_).ok());
  const OuterFragment* const first = exchange_->fragments()[0].get();
  EXPECT_TRUE(exchange_->TakePlan(PlanOf(2), *replica_).ok());
  EXPECT_EQ(exchange_->fragments()[0].get(), first);
  EXPECT_EQ(exchange_->TakePlan(PlanOf(1), *replica_).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FragmentExchangeTest, APlanOfAnotherModelIsRefused) {
  EXPECT_EQ(exchange_->TakePlan(PlanOf(3), *replica_).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FragmentExchangeTest, AContributionThatIsNotFiniteIsAFault) {
  ASSERT_TRUE(exchange_->TakePlan(PlanOf(2), *replica_).ok());
  const std::vector<float> wrong = {std::numeric_limits<float>::quiet_NaN()};
  ASSERT_TRUE(replica_->Write(0, 5, wrong).ok());
  ASSERT_TRUE(exchange_->TakeSnapshot(*replica_, 0, 1, RoundKind::kOuter).ok());
  ASSERT_TRUE(exchange_->Push(connection_, {.fragment = 0, .version = 1}).ok());
  End();
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_EQ(faults_[0].code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(events_.empty());
}

TEST_F(FragmentExchangeTest, NothingIsReportedOfBytesThatAreNotThere) {
  ASSERT_TRUE(exchange_->TakePlan(PlanOf(2), *replica_).ok());
  ASSERT_TRUE(exchange_->Push(connection_, {.fragment = 1, .version = 1}).ok());
  End();
  EXPECT_TRUE(faults_.empty());
  EXPECT_TRUE(events_.empty());
}

// A connection that came back just after the snapshot asks for the bytes before the training thread
// does. They are a difference to the outer parameters, not the parameters, which a seed would be.
TEST_F(FragmentExchangeTest, BytesAreCodedOnceAsTheirRoundWants) {
  v1::Plan plan = PlanOf(2);
  plan.mutable_up()->set_codec(v1::INT4);
  ASSERT_TRUE(exchange_->TakePlan(plan, *replica_).ok());
  ASSERT_TRUE(replica_->Write(0, 0, {1.0f, 0.3f, -0.7f}).ok());
  ASSERT_TRUE(exchange_->TakeSnapshot(*replica_, 0, 1, RoundKind::kOuter).ok());
  ASSERT_TRUE(exchange_->Push(connection_, {.fragment = 0, .version = 1}).ok());
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (absl::Now() < deadline && exchange_->uplink_quality().nmse == 0)
    absl::SleepFor(absl::Milliseconds(5));
  EXPECT_GT(exchange_->uplink_quality().nmse, 0);
  const auto coded = exchange_->fragments()[0]->Encode(1);
  ASSERT_TRUE(coded.ok());
  EXPECT_LT((*coded)->blocks.payload.span().size(), kUnitElements * sizeof(float) / 4);
  End();
}

// A push that waited in the queue while its version was merged finds the next version's snapshot.
TEST_F(FragmentExchangeTest, ALatePushDoesNotCodeTheNextVersion) {
  v1::Plan plan = PlanOf(2);
  plan.mutable_up()->set_codec(v1::INT4);
  plan.mutable_up()->set_stochastic_rounding(true);
  ASSERT_TRUE(exchange_->TakePlan(plan, *replica_).ok());
  std::vector<float> values(kUnitElements);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 37);
  ASSERT_TRUE(replica_->Write(0, 0, values).ok());
  OuterFragment& outer = *exchange_->fragments()[0];
  const auto coded_with = [&](int64_t version) {
    const uint64_t key = NoiseKeyOf(7, "site-a", 0, version);
    EXPECT_TRUE(outer.TakeSnapshot(*replica_, {.version = version, .noise_key = key}).ok());
    const auto bytes = (*outer.Encode(version))->blocks.payload.span();
    return std::vector<uint8_t>(bytes.begin(), bytes.end());
  };
  const std::vector<uint8_t> first = coded_with(1), second = coded_with(2);
  ASSERT_NE(first, second);
  ASSERT_TRUE(exchange_->TakeSnapshot(*replica_, 0, 2, RoundKind::kOuter).ok());
  ASSERT_TRUE(exchange_->Push(connection_, {.fragment = 0, .version = 1}).ok());
  ASSERT_TRUE(exchange_->Push(connection_, {.fragment = 0, .version = 2}).ok());
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (absl::Now() < deadline && exchange_->uplink_quality().nmse == 0)
    absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(*outer.Encode(1), nullptr);
  const auto bytes = (*outer.Encode(2))->blocks.payload.span();
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.end()), second);
  End();
}

TEST_F(FragmentExchangeTest, PullsDoNotWaitForPushes) {
  constexpr int kFragments = 8;
  replica_ = SyntheticReplica::Create({.units = kFragments, .elements = kUnitElements}).value();
  ASSERT_TRUE(exchange_->TakePlan(PlanOf(kFragments), *replica_).ok());
  for (int fragment = 0; fragment < kFragments; ++fragment) {
    ASSERT_TRUE(exchange_->TakeSnapshot(*replica_, fragment, 0, RoundKind::kSeed).ok());
    ASSERT_TRUE(exchange_->Push(connection_, {.fragment = fragment}).ok());
  }
  // Nothing is left to be pulled, so the answer needs no coordinator.
  OuterFragment& outer = *exchange_->fragments()[0];
  auto pulled = outer.BeginDownlink(1);
  ASSERT_TRUE(pulled.ok() && pulled->has_value());
  ASSERT_TRUE((*pulled)->Verify(1, {}).ok());
  ASSERT_TRUE(outer.StageDownlink(1, **std::move(pulled)).ok());
  ASSERT_TRUE(exchange_->Pull(connection_, 0, 1).ok());
  {
    absl::MutexLock lock(&mutex_);
    const auto answered = [&] { return !events_.empty(); };
    ASSERT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&answered), absl::Seconds(20)));
    EXPECT_TRUE(std::holds_alternative<Pulled>(events_[0]));
  }
  End();
}

// A coordinator that refuses all contributions.
class RefusingCoordinator : public v1::SyncService::Service {
 public:
  explicit RefusingCoordinator(std::string reason) : reason_(std::move(reason)) {
    server_ = *Server::Start({.address = "127.0.0.1:0"}, {this});
  }
  ~RefusingCoordinator() override { server_.reset(); }
  const std::string& address() const { return server_->address(); }
  grpc::Status PushFragment(grpc::ServerContext*, grpc::ServerReader<v1::PushMessage>*,
                            v1::PushResponse*) override {
    return ToGrpcStatus(
        WithErrorInfo(absl::FailedPreconditionError("not any more"), {.reason = reason_}));
  }

 private:
  const std::string reason_;
  std::unique_ptr<Server> server_;
};

TEST_F(FragmentExchangeTest, TheEndOfTheJobIsNoReasonToWarn) {
  const auto level_of = [](const std::string& reason) {
    RefusingCoordinator coordinator(reason);
    std::ostringstream log;
    absl::Notification refused;
    FragmentExchange exchange(
        {.transfers = {.coordinator = coordinator.address(), .job = "job", .pool = "site-a"},
         .log = Logger({.format = LogFormat::kText, .stream = &log})},
        {.on_event = [&](const FragmentExchange::Connection&, const Event&) { refused.Notify(); },
         .on_fault = [](const absl::Status& status) { ADD_FAILURE() << status; }});
    const auto replica = SyntheticReplica::Create({.units = 2, .elements = kUnitElements}).value();
    EXPECT_TRUE(exchange.TakePlan(PlanOf(2), *replica).ok());
    EXPECT_TRUE(exchange.TakeSnapshot(*replica, 0, 1, RoundKind::kOuter).ok());
    EXPECT_TRUE(exchange.Push({}, {.fragment = 0, .version = 1}).ok());
    refused.WaitForNotification();
    return log.str();
  };
  EXPECT_THAT(level_of("ROUND_CLOSED"),
              testing::ContainsRegex(" warning push of fragment 0 version 1 was refused"));
  EXPECT_THAT(level_of("JOB_ENDED"),
              testing::ContainsRegex(" info .*push of fragment 0 version 1 was refused"));
}

TEST_F(FragmentExchangeTest, AStoppedConnectionEndsItsTransfers) {
  ASSERT_TRUE(exchange_->TakePlan(PlanOf(2), *replica_).ok());
  ASSERT_TRUE(exchange_->TakeSnapshot(*replica_, 0, 0, RoundKind::kSeed).ok());
  ASSERT_TRUE(exchange_->Push(connection_, {.fragment = 0}).ok());
  ASSERT_TRUE(exchange_->Pull(connection_, 1, 1).ok());
  ASSERT_TRUE(exchange_->PullWhole(connection_, 1).ok());
  End();
  // A stopped push is silent; pulls say that they were stopped, for a connection that is gone.
  ASSERT_EQ(events_.size(), 2u);
  for (const Event& event : events_) {
    ASSERT_TRUE(std::holds_alternative<PullRefused>(event));
    EXPECT_EQ(std::get<PullRefused>(event).status.code(), absl::StatusCode::kCancelled);
  }
}

}  // namespace
}  // namespace longhaul::session
