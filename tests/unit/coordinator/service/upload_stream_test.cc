// Streams of uploads over real gRPC, with what a peer may do wrong.
#include "coordinator/service/upload_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/upload_service.h"
#include "grpcpp/generic/generic_stub.h"

namespace longhaul::coordinator {
namespace {

constexpr char kMethod[] = "/longhaul.v1.UploadService/UploadFile";

// Keeps what is appended.
struct Received {
  absl::Mutex mutex;
  std::string bytes ABSL_GUARDED_BY(mutex);
  int finished ABSL_GUARDED_BY(mutex) = 0;
  // What an append gives.
  absl::Status fault ABSL_GUARDED_BY(mutex);
};

class KeptFile final : public IncomingFile {
 public:
  explicit KeptFile(Received* received) : received_(*received) {}
  int64_t bytes() const override {
    absl::MutexLock lock(&received_.mutex);
    return static_cast<int64_t>(received_.bytes.size());
  }
  absl::Status Append(absl::Span<const absl::string_view> pieces) override {
    absl::MutexLock lock(&received_.mutex);
    for (const absl::string_view piece : pieces) {
      if (received_.fault.ok()) received_.bytes.append(piece.data(), piece.size());
    }
    return received_.fault;
  }
  absl::StatusOr<Ended> Finish() override {
    absl::MutexLock lock(&received_.mutex);
    ++received_.finished;
    return Ended{.file = {.bytes = static_cast<int64_t>(received_.bytes.size())}};
  }

 private:
  Received& received_;
};

class KeepingService final : public RawUploadService {
 public:
  grpc::ServerReadReactor<grpc::ByteBuffer>* UploadFile(grpc::CallbackServerContext* context,
                                                        grpc::ByteBuffer* response) override {
    return ReceiveUploadFile(context, response, handler, resources);
  }
  UploadHandler handler;
  BulkResources resources;
};

class UploadStreamTest : public ::testing::Test {
 protected:
  void Serve(const StallLimits& stall = {}) {
    service_.handler = {
        .open =
            [this](const v1::UploadFileRequest&) -> absl::StatusOr<std::unique_ptr<IncomingFile>> {
          return std::make_unique<KeptFile>(&received_);
        },
        .explain =
            [](const absl::Status& status) {
              return WithErrorInfo(status, {"EXPLAINED", {}});
            },
        .on_taken = [this](int64_t bytes) { taken_ += bytes; },
        .on_end =
            [this](const absl::Status& status) {
              end_ = status;
              ended_->Notify();
            }};
    ended_.emplace();
    service_.resources = {.executor = &executor_, .admission = &admission_, .stall = stall};
    auto server = Server::Start({.address = "127.0.0.1:0"}, {&service_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown(absl::Seconds(60));
    EXPECT_EQ(admission_.streams(), 0);
  }

  static std::string First() {
    v1::UploadFileRequest first;
    first.set_upload("u");
    first.set_file("x");
    return first.SerializeAsString();
  }
  static std::string Data(const std::string& data) {
    v1::UploadFileRequest chunk;
    chunk.set_data(data);
    return chunk.SerializeAsString();
  }
  enum class Then { kEnd, kStandStill, kCancel };
  // Sends serialized messages. The answer, or the error.
  absl::StatusOr<v1::UploadFileResponse> Send(const std::vector<std::string>& messages,
                                              Then then = Then::kEnd) {
    grpc::GenericStub stub(MakeChannel({.address = server_->address()}));
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    grpc::CompletionQueue queue;
    const auto await = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    const auto call = stub.PrepareCall(&context, kMethod, &queue);
    call->StartCall(nullptr);
    bool open = await();
    for (size_t i = 0; i < messages.size() && open; ++i) {
      const grpc::Slice slice(messages[i]);
      call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      open = await();
    }
    if (open && then == Then::kEnd) {
      call->WritesDone(nullptr);
      (void)await();
    }
    if (then == Then::kCancel) context.TryCancel();
    grpc::ByteBuffer answer;
    call->Read(&answer, nullptr);
    const bool answered = await();
    grpc::Status status;
    call->Finish(&status, nullptr);
    (void)await();
    if (!status.ok()) return FromGrpcStatus(status);
    v1::UploadFileResponse response;
    EXPECT_TRUE(answered && ParseFromByteBuffer(answer, &response).ok());
    return response;
  }
  static std::string ReasonOf(const absl::Status& status) {
    return ErrorInfoOf(status).value_or(ErrorDetail{}).reason;
  }
  std::string Bytes() {
    absl::MutexLock lock(&received_.mutex);
    return received_.bytes;
  }

  Received received_;
  Executor executor_{{.threads = 2, .queue_max = 64}};
  StreamAdmission admission_{{}};
  KeepingService service_;
  std::unique_ptr<Server> server_;
  std::atomic<int64_t> taken_ = 0;
  absl::Status end_;
  std::optional<absl::Notification> ended_;
};

TEST_F(UploadStreamTest, TakesTheDataInOrderHoweverLargeTheyAre) {
  Serve();
  std::string all;
  std::vector<std::string> messages = {First()};
  for (const int64_t bytes : {int64_t{1}, kUploadChunkMax, int64_t{0}, int64_t{70'001}}) {
    std::string data(bytes, '\0');
    for (int64_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 2654435761u >> 11);
    messages.push_back(Data(data));
    all += data;
  }
  const auto sent = Send(messages);
  ASSERT_TRUE(sent.ok()) << sent.status();
  EXPECT_EQ(sent->bytes(), static_cast<int64_t>(all.size()));
  EXPECT_TRUE(Bytes() == all);
  EXPECT_EQ(taken_, static_cast<int64_t>(all.size()));
  EXPECT_TRUE(end_.ok());
}

// A client in another language may write its fields in any order.
TEST_F(UploadStreamTest, TheDataNeedNotComeLastInAMessage) {
  Serve();
  const auto sent = Send({First(), Data("abc") + First(), Data("no") + Data("def")});
  ASSERT_TRUE(sent.ok()) << sent.status();
  EXPECT_EQ(Bytes(), "abcdef");
  EXPECT_EQ(taken_, 6);
}

TEST_F(UploadStreamTest, MalformedMessagesEndIt) {
  const struct {
    std::vector<std::string> messages;
    std::string bytes;
  } cases[] = {
      {{}, ""},
      {{"\xff"}, ""},
      {{Data("abc")}, ""},
      {{First() + Data("abc")}, ""},
      {{First(), Data("abc"), "\xff"}, "abc"},
      {{First(), Data(std::string(kUploadChunkMax + 1, 'x'))}, ""},
      {{First(), First() + Data(std::string(kUploadChunkMax + 1, 'x')) + First()}, ""},
  };
  for (const auto& test : cases) {
    server_.reset();
    Serve();
    {
      absl::MutexLock lock(&received_.mutex);
      received_.bytes.clear();
    }
    const absl::Status status = Send(test.messages).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(ReasonOf(status), "EXPLAINED") << status;
    EXPECT_EQ(Bytes(), test.bytes);
  }
  EXPECT_EQ(received_.finished, 0);
}

TEST_F(UploadStreamTest, AnErrorOfTheFileIsExplained) {
  Serve();
  {
    absl::MutexLock lock(&received_.mutex);
    received_.fault = absl::ResourceExhaustedError("no space left");
  }
  std::vector<std::string> messages = {First()};
  for (int i = 0; i < 40; ++i) messages.push_back(Data(std::string(kUploadChunkMax, 'x')));
  const absl::Status status = Send(messages).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(ReasonOf(status), "EXPLAINED");
  EXPECT_EQ(received_.finished, 0);
}

TEST_F(UploadStreamTest, APeerThatStandsStillIsEndedAndWhatCameStays) {
  for (const std::vector<std::string>& messages :
       {std::vector<std::string>{}, {First()}, {First(), Data("abc")}}) {
    server_.reset();
    Serve({.pause_max = absl::Milliseconds(50), .pace_min = 1 << 30});
    const absl::Status status = Send(messages, Then::kStandStill).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_EQ(ReasonOf(status), "NO_PROGRESS");
    EXPECT_TRUE(RetryDelayOf(status).has_value());
  }
  EXPECT_EQ(Bytes(), "abc");
  EXPECT_EQ(received_.finished, 0);
}

TEST_F(UploadStreamTest, ACancelledStreamKeepsWhatCame) {
  Serve();
  EXPECT_TRUE(absl::IsCancelled(Send({First(), Data("abc")}, Then::kCancel).status()));
  ended_->WaitForNotification();
  const std::string bytes = Bytes();
  EXPECT_TRUE(bytes.empty() || bytes == "abc") << bytes;
}

}  // namespace
}  // namespace longhaul::coordinator
