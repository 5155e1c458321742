// Folders of users over real gRPC: what a client may do wrong, and what breaks on the way. Whole
// uploads through the CLI, and restarts, are in tests/integration/processes/upload_test.py.
#include "coordinator/cli/upload.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/base/host_port.h"
#include "common/checkpoint/folder_files.h"
#include "common/io/posix_filesystem.h"
#include "common/io/sha256.h"
#include "coordinator/store/uploads.h"
#include "gmock/gmock.h"
#include "longhaul/v1/upload.grpc.pb.h"
#include "tests/integration/coordinator/exchange_fixture.h"
#include "tests/testing/cutting_proxy.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

class UploadTest : public PagesFixture {
 protected:
  void SetUp() override {
    Start();
    uploads_ = v1::UploadService::NewStub(MakeChannel({.address = address()}));
  }
  coordinator::CoordinatorServerOptions Options() override {
    coordinator::CoordinatorServerOptions options = PagesFixture::Options();
    options.import_dir = imports_.path();
    return options;
  }

  // A folder with a config.json and a file of so many bytes.
  v1::PrepareUploadRequest Announce(const std::string& bytes) {
    v1::PrepareUploadRequest request;
    std::vector<FolderFile> files = {{"config.json", 2, Sha256Hex("{}")},
                                     {"x", static_cast<int64_t>(bytes.size()), Sha256Hex(bytes)}};
    for (const FolderFile& file : files) {
      v1::UploadedFile* announced = request.add_files();
      announced->set_name(file.name);
      announced->set_bytes(file.bytes);
      announced->set_sha256(file.sha256);
    }
    request.set_upload(DigestOfFiles(files));
    return request;
  }
  absl::StatusOr<v1::PrepareUploadResponse> Prepare(const v1::PrepareUploadRequest& request) {
    v1::PrepareUploadResponse response;
    return Finished(uploads_->PrepareUpload(Context().get(), request, &response), response);
  }
  // `first` and these pieces.
  absl::StatusOr<v1::UploadFileResponse> Send(const v1::UploadFileRequest& first,
                                              const std::vector<std::string>& pieces) {
    v1::UploadFileResponse response;
    const auto context = Context();
    const auto writer = uploads_->UploadFile(context.get(), &response);
    bool open = writer->Write(first);
    for (const std::string& piece : pieces) {
      v1::UploadFileRequest chunk;
      chunk.set_data(piece);
      open = open && writer->Write(chunk);
    }
    writer->WritesDone();
    return Finished(writer->Finish(), response);
  }
  static v1::UploadFileRequest First(const std::string& upload, const std::string& file,
                                     int64_t offset = 0) {
    v1::UploadFileRequest first;
    first.set_upload(upload);
    first.set_file(file);
    first.set_offset(offset);
    return first;
  }

  TempDir imports_, mine_;
  std::unique_ptr<v1::UploadService::Stub> uploads_;
};

TEST_F(UploadTest, WhatIsNotPreparedIsRefused) {
  const v1::PrepareUploadRequest request = Announce("abc");
  EXPECT_EQ(ReasonOf(Send(First(request.upload(), "x"), {"abc"}).status()), "UPLOAD_UNKNOWN");
  ASSERT_TRUE(Prepare(request).ok());
  EXPECT_EQ(ReasonOf(Send(First(request.upload(), "../x"), {}).status()), "UPLOAD_UNKNOWN");
  EXPECT_EQ(ReasonOf(Send(First("../../etc", "passwd"), {}).status()), "UPLOAD_UNKNOWN");
  EXPECT_EQ(ReasonOf(Send(v1::UploadFileRequest(), {}).status()), "MISSING_HEADER");
  v1::UploadFileRequest hasty = First(request.upload(), "x");
  hasty.set_data("abc");
  EXPECT_EQ(ReasonOf(Send(hasty, {}).status()), "MISSING_HEADER");
  EXPECT_EQ(ReasonOf(Send(First(request.upload(), "x", 1), {"bc"}).status()), "UPLOAD_OFFSET");
  EXPECT_TRUE(absl::IsInvalidArgument(Send(First(request.upload(), "x"), {"abcd"}).status()));
  grpc::ClientContext endless;
  v1::UploadFileResponse response;
  const auto writer = uploads_->UploadFile(&endless, &response);
  writer->WritesDone();
  EXPECT_EQ(ReasonOf(FromGrpcStatus(writer->Finish())), "MISSING_DEADLINE");
}

TEST_F(UploadTest, NamesSizesAndDigestsAreCheckedFirst) {
  const auto refused = [&](const std::function<void(v1::PrepareUploadRequest&)>& spoil) {
    v1::PrepareUploadRequest request = Announce("abc");
    spoil(request);
    const absl::Status status = Prepare(request).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return FieldViolationsOf(status).empty() ? "" : FieldViolationsOf(status)[0].field;
  };
  EXPECT_EQ(refused([](auto& r) { r.mutable_files(1)->set_name("../x"); }), "files");
  EXPECT_EQ(refused([](auto& r) { r.mutable_files(1)->set_name("/tmp/x"); }), "files");
  EXPECT_EQ(refused([](auto& r) { r.mutable_files(1)->set_name(".files"); }), "files");
  EXPECT_EQ(refused([](auto& r) { r.mutable_files(1)->set_bytes(-1); }), "files");
  EXPECT_EQ(refused([](auto& r) { r.mutable_files(1)->set_sha256("x"); }), "files");
  EXPECT_EQ(refused([](auto& r) { r.mutable_files(0)->set_name("y"); }), "files");
  EXPECT_EQ(refused([](auto& r) { r.set_upload(Sha256Hex("")); }), "upload");
  EXPECT_EQ(refused([](auto& r) { r.clear_upload(); }), "upload");
  v1::PrepareUploadRequest large = Announce("abc");
  large.mutable_files(1)->set_bytes(int64_t{1} << 60);
  large.set_upload(DigestOfFiles({{"config.json", 2, large.files(0).sha256()},
                                  {"x", int64_t{1} << 60, large.files(1).sha256()}}));
  EXPECT_EQ(ReasonOf(Prepare(large).status()), "UPLOAD_TOO_LARGE");
  EXPECT_FALSE(std::filesystem::exists(UploadsFolder(data_.path())));
}

TEST_F(UploadTest, AMessageIsBoundedAndAFileHasOneSender) {
  const std::string bytes(3 << 20, 'x');
  const v1::PrepareUploadRequest request = Announce(bytes);
  ASSERT_TRUE(Prepare(request).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      Send(First(request.upload(), "x"), {bytes.substr(0, (1 << 20) + 1)}).status()));
  EXPECT_EQ(Prepare(request)->files(1).bytes(), 0);
  // Another stream while this one is open.
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  v1::UploadFileResponse response;
  const auto writer = uploads_->UploadFile(&context, &response);
  ASSERT_TRUE(writer->Write(First(request.upload(), "x")));
  v1::UploadFileRequest chunk;
  chunk.set_data(bytes.substr(0, 1 << 20));
  ASSERT_TRUE(writer->Write(chunk));
  for (const absl::Time end = absl::Now() + kCallTimeout; absl::Now() < end;) {
    if (Prepare(request)->files(1).bytes() == 1 << 20) break;
    absl::SleepFor(absl::Milliseconds(5));
  }
  const absl::Status busy = Send(First(request.upload(), "x", 1 << 20), {}).status();
  EXPECT_EQ(ReasonOf(busy), "UPLOAD_BUSY");
  EXPECT_TRUE(RetryDelayOf(busy).has_value());
  context.TryCancel();
  (void)writer->Finish();
  // What came stays.
  for (const absl::Time end = absl::Now() + kCallTimeout; absl::Now() < end;) {
    const auto rest = Send(First(request.upload(), "x", 1 << 20),
                           {bytes.substr(0, 1 << 20), bytes.substr(0, 1 << 20)});
    if (rest.ok()) {
      EXPECT_TRUE(rest->verified());
      break;
    }
    ASSERT_EQ(ReasonOf(rest.status()), "UPLOAD_BUSY") << rest.status();
    absl::SleepFor(absl::Milliseconds(5));
  }
  const auto last = Send(First(request.upload(), "config.json"), {"{}"});
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_TRUE(last->complete());
}

TEST_F(UploadTest, DamagedBytesAreDropped) {
  const v1::PrepareUploadRequest request = Announce("abc");
  ASSERT_TRUE(Prepare(request).ok());
  EXPECT_EQ(ReasonOf(Send(First(request.upload(), "x"), {"abd"}).status()), "UPLOAD_DAMAGED");
  EXPECT_EQ(Prepare(request)->files(1).bytes(), 0);
  EXPECT_TRUE(Send(First(request.upload(), "x"), {"ab", "c"})->verified());
}

TEST_F(UploadTest, ItGoesOnOverBrokenConnections) {
  std::ofstream(mine_.Join("config.json")) << "{}";
  std::ofstream(mine_.Join("model.safetensors")) << std::string(5 << 20, 'x');
  const auto files = MakePosixFileSystem();
  const auto clock = MakeSystemClock();
  std::istringstream in;
  std::ostringstream out, err;
  const cli::Environment environment{
      .in = in, .out = out, .err = err, .clock = *clock, .variable = [](const char*) {
        return std::optional<std::string>();
      }};
  const auto folder = cli::ReadFolder(*files, mine_.path(), environment);
  ASSERT_TRUE(folder.ok()) << folder.status();
  // Behind each connection the client looks with one of its own what is wrong.
  CuttingProxy proxy({.target_port = ParseHostPort(address())->port,
                      .direction = CuttingProxy::Direction::kUp,
                      .bytes_each = 1 << 20,
                      .cuts = 6});
  cli::Client client(proxy.address(), absl::Seconds(30), {});
  const auto sent = cli::Upload(*folder, client, *files, environment);
  ASSERT_TRUE(sent.ok()) << sent.status();
  EXPECT_GE(proxy.cuts(), 2);
  EXPECT_THAT(err.str(), HasSubstr("connection lost"));
  const std::string there = UploadFolder(data_.path(), folder->upload);
  EXPECT_EQ(std::filesystem::file_size(there + "/model.safetensors"), 5u << 20);
  // The same again is not sent.
  const auto again = cli::Upload(*folder, client, *files, environment);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->sent, 0);
}

TEST_F(UploadTest, AFolderThatBothSeeIsToldByItsFiles) {
  const std::string folder = imports_.Join("base");
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/config.json") << "{}";
  std::ofstream(folder + "/model.safetensors") << "xyz";
  const auto files = MakePosixFileSystem();
  const auto seen = cli::LookAtFolder(*files, folder);
  ASSERT_TRUE(seen.ok()) << seen.status();
  v1::FindFolderRequest request;
  request.set_path(folder);
  for (const cli::SeenFile& file : *seen) {
    v1::FileIdentity* identity = request.add_files();
    identity->set_name(file.name);
    identity->set_bytes(file.bytes);
    identity->set_inode(file.inode);
    identity->set_changed_ns(file.changed_ns);
  }
  const auto sight = [&] {
    v1::FindFolderResponse response;
    const auto found =
        Finished(uploads_->FindFolder(Context().get(), request, &response), response);
    EXPECT_TRUE(found.ok()) << found.status();
    return response.sight();
  };
  EXPECT_EQ(sight(), v1::SAME_FOLDER);
  request.mutable_files(1)->set_inode(request.files(1).inode() + 1);
  EXPECT_EQ(sight(), v1::OTHER_FOLDER);
  request.set_path(mine_.path());
  EXPECT_EQ(sight(), v1::NO_FOLDER);
  request.set_path(imports_.Join("../" + std::filesystem::path(mine_.path()).filename().string()));
  EXPECT_EQ(sight(), v1::NO_FOLDER);
  request.mutable_files(1)->set_name("../../x");
  v1::FindFolderResponse response;
  EXPECT_TRUE(absl::IsInvalidArgument(
      FromGrpcStatus(uploads_->FindFolder(Context().get(), request, &response))));
}

TEST_F(UploadTest, WhatComesAndWhatIsRefusedIsCounted) {
  const auto await = [this](const std::vector<std::string>& lines) {
    std::string text;
    for (const absl::Time end = absl::Now() + kCallTimeout; absl::Now() < end;) {
      text = Get("/metrics");
      if (std::all_of(lines.begin(), lines.end(), [&](const std::string& line) {
            return text.find("longhaul_coordinator_" + line + "\n") != std::string::npos;
          })) {
        return std::string();
      }
      absl::SleepFor(absl::Milliseconds(20));
    }
    return text;
  };
  EXPECT_EQ(await({"uploads{state=\"whole\"} 0", "uploads{state=\"partial\"} 0",
                   "upload_stored_bytes 0", "upload_limit_bytes 274877906944"}),
            "");
  const v1::PrepareUploadRequest request = Announce("abc");
  EXPECT_FALSE(Send(First(request.upload(), "x"), {"abc"}).ok());
  ASSERT_TRUE(Prepare(request).ok());
  EXPECT_FALSE(Send(First(request.upload(), "x"), {"abd"}).ok());
  ASSERT_TRUE(Send(First(request.upload(), "x"), {"ab", "c"}).ok());
  v1::PrepareUploadRequest spoilt = request;
  spoilt.clear_upload();
  EXPECT_FALSE(Prepare(spoilt).ok());
  EXPECT_EQ(
      await({"uploads{state=\"whole\"} 0", "uploads{state=\"partial\"} 1", "upload_stored_bytes 5",
             "upload_received_bytes_total 6", "refused_uploads_total{reason=\"UPLOAD_UNKNOWN\"} 1",
             "refused_uploads_total{reason=\"UPLOAD_DAMAGED\"} 1",
             "refused_uploads_total{reason=\"INVALID_ARGUMENT\"} 1"}),
      "");
  ASSERT_TRUE(Send(First(request.upload(), "config.json"), {"{}"}).ok());
  EXPECT_EQ(await({"uploads{state=\"whole\"} 1", "uploads{state=\"partial\"} 0",
                   "upload_received_bytes_total 8"}),
            "");
}

TEST_F(UploadTest, AJobNamesAnUploadThatIsThere) {
  v1::JobSpec spec = Spec("next");
  spec.mutable_init()->set_upload("x");
  EXPECT_EQ(FieldViolationsOf(Submit(spec).status())[0].field, "init.upload");
  spec.mutable_init()->set_upload(Sha256Hex("nothing"));
  const absl::Status unknown = Submit(spec).status();
  EXPECT_TRUE(absl::IsNotFound(unknown));
  EXPECT_EQ(ReasonOf(unknown), "UPLOAD_UNKNOWN");
  // It is whole, and no checkpoint of this model.
  const v1::PrepareUploadRequest request = Announce("abc");
  ASSERT_TRUE(Prepare(request).ok());
  ASSERT_TRUE(Send(First(request.upload(), "x"), {"abc"}).ok());
  spec.mutable_init()->set_upload(request.upload());
  EXPECT_EQ(ReasonOf(Submit(spec).status()), "UPLOAD_UNKNOWN");
  ASSERT_TRUE(Send(First(request.upload(), "config.json"), {"{}"})->complete());
  EXPECT_EQ(FieldViolationsOf(Submit(spec).status())[0].field, "init.upload");
}

}  // namespace
}  // namespace longhaul
