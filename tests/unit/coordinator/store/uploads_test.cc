#include "coordinator/store/uploads.h"

#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/io/file_util.h"
#include "common/io/sha256.h"
#include "coordinator/store/check.h"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul {
namespace {

constexpr char kData[] = "data";

struct Content {
  std::string name, bytes;
};

std::vector<FolderFile> FilesOf(const std::vector<Content>& contents) {
  std::vector<FolderFile> files;
  for (const Content& content : contents) {
    files.push_back(
        {content.name, static_cast<int64_t>(content.bytes.size()), Sha256Hex(content.bytes)});
  }
  return files;
}

// Opening a file can fail, too.
class UploadsFileSystem final : public FailingFileSystem {
 public:
  using FailingFileSystem::FailingFileSystem;
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override {
    if (opens) LH_RETURN_IF_ERROR(opens(path));
    return FailingFileSystem::Open(path);
  }
  std::function<absl::Status(const std::string& path)> opens;
};

class UploadsTest : public ::testing::Test {
 protected:
  UploadsTest() { EXPECT_TRUE(base_.CreateDir(kData).ok()); }

  void Open(int64_t bytes_max = 1000) {
    uploads_.reset();
    troubles_.clear();
    auto opened = Uploads::Open(
        &fs_, &clock_,
        {.data_dir = kData, .bytes_max = bytes_max, .keep = absl::Hours(1), .free_min = 0},
        &troubles_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    uploads_ = *std::move(opened);
  }
  std::string NameOf(const std::vector<Content>& contents) {
    return DigestOfFiles(FilesOf(contents));
  }
  absl::StatusOr<Uploads::Prepared> Prepare(const std::vector<Content>& contents) {
    return uploads_->Prepare(FilesOf(contents));
  }
  absl::StatusOr<IncomingFile::Ended> Send(const std::vector<Content>& contents, size_t index,
                                           const std::string& bytes, int64_t offset = 0) {
    LH_ASSIGN_OR_RETURN(const std::unique_ptr<IncomingFile> file,
                        uploads_->Receive(NameOf(contents), contents[index].name, offset));
    LH_RETURN_IF_ERROR(file->Append(bytes));
    return file->Finish();
  }
  void SendAll(const std::vector<Content>& contents) {
    ASSERT_TRUE(Prepare(contents).ok());
    for (size_t i = 0; i < contents.size(); ++i)
      ASSERT_TRUE(Send(contents, i, contents[i].bytes).ok());
    ASSERT_TRUE(uploads_->Find(NameOf(contents)).has_value());
  }
  std::string Read(const std::string& path) {
    return ReadFile(fs_, path, 1 << 20).value_or("nothing");
  }
  std::vector<std::string> Folders() {
    return base_.List(UploadsFolder(kData)).value_or(std::vector<std::string>());
  }

  MemoryFileSystem base_;
  UploadsFileSystem fs_{&base_};
  ManualClock clock_{absl::FromUnixSeconds(1700000000)};
  std::vector<std::string> troubles_;
  const std::vector<Content> model_ = {{"manifest.json", "{}"}, {"a.f32", std::string(300, 'a')}};
  const std::vector<Content> other_ = {{"config.json", "{}"}, {"b", std::string(500, 'b')}};
  std::unique_ptr<Uploads> uploads_;
};

TEST_F(UploadsTest, AFolderIsThereWhenItsLastFileIsVerified) {
  Open();
  const std::string name = NameOf(model_);
  const auto prepared = Prepare(model_);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_FALSE(prepared->complete);
  EXPECT_EQ(Folders(), std::vector<std::string>{name + ".partial"});
  const auto first = Send(model_, 1, model_[1].bytes);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->file.verified);
  EXPECT_FALSE(first->complete);
  EXPECT_FALSE(uploads_->Find(name).has_value());
  EXPECT_EQ(uploads_->counts().partial, 1);
  EXPECT_EQ(uploads_->counts().whole, 0);
  EXPECT_TRUE(Send(model_, 0, "{}")->complete);
  EXPECT_EQ(uploads_->counts().partial, 0);
  EXPECT_EQ(uploads_->counts().whole, 1);
  EXPECT_EQ(uploads_->Find(name), UploadFolder(kData, name));
  EXPECT_EQ(Folders(), std::vector<std::string>{name});
  EXPECT_EQ(Read(UploadFolder(kData, name) + "/a.f32"), model_[1].bytes);
  // The same files, in another order: nothing is to be sent.
  const auto again = uploads_->Prepare(FilesOf({model_[1], model_[0]}));
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->complete);
  EXPECT_EQ(again->files[0].bytes, 300);
  EXPECT_EQ(uploads_->counts().bytes, 302);
  int64_t checked = 0;
  EXPECT_TRUE(CheckUploads(fs_, kData, &checked).empty());
  EXPECT_EQ(checked, 1);
}

TEST_F(UploadsTest, GoesOnWhereItStopped) {
  Open();
  ASSERT_TRUE(Prepare(model_).ok());
  EXPECT_EQ(Send(model_, 1, std::string(100, 'a'))->file.bytes, 100);
  EXPECT_EQ(Prepare(model_)->files[1].bytes, 100);
  EXPECT_TRUE(absl::IsOutOfRange(Send(model_, 1, "a", 99).status()));
  EXPECT_EQ(Send(model_, 1, std::string(50, 'a'), 100)->file.bytes, 150);
  // Also behind a restart, which finds the bytes again, and verifies them.
  Open();
  EXPECT_EQ(Prepare(model_)->files[1].bytes, 150);
  EXPECT_TRUE(Send(model_, 1, std::string(150, 'a'), 150)->file.verified);
  Open();
  EXPECT_FALSE(Prepare(model_)->files[1].verified);
  EXPECT_TRUE(Send(model_, 1, "", 300)->file.verified);
  EXPECT_TRUE(Send(model_, 0, "{}")->complete);
  Open();
  EXPECT_TRUE(Prepare(model_)->complete);
}

TEST_F(UploadsTest, WhatIsNotAnnouncedIsDropped) {
  Open();
  ASSERT_TRUE(Prepare(model_).ok());
  EXPECT_TRUE(absl::IsDataLoss(Send(model_, 1, std::string(300, 'b')).status()));
  EXPECT_EQ(Prepare(model_)->files[1].bytes, 0);
  EXPECT_TRUE(absl::IsInvalidArgument(Send(model_, 1, std::string(301, 'a')).status()));
  EXPECT_TRUE(Send(model_, 1, model_[1].bytes)->file.verified);
  EXPECT_TRUE(absl::IsOutOfRange(Send(model_, 1, "", 300).status()));
  EXPECT_TRUE(absl::IsNotFound(uploads_->Receive(NameOf(model_), "c", 0).status()));
  EXPECT_TRUE(absl::IsNotFound(uploads_->Receive(NameOf(other_), "b", 0).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(uploads_->Prepare({{"../x", 1, Sha256Hex("")}}).status()));
}

TEST_F(UploadsTest, OneSendsAFileAtATime) {
  Open();
  ASSERT_TRUE(Prepare(model_).ok());
  auto first = uploads_->Receive(NameOf(model_), "a.f32", 0);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(absl::IsUnavailable(uploads_->Receive(NameOf(model_), "a.f32", 0).status()));
  EXPECT_TRUE(uploads_->Receive(NameOf(model_), "manifest.json", 0).ok());
  first->reset();
  EXPECT_TRUE(uploads_->Receive(NameOf(model_), "a.f32", 0).ok());
}

TEST_F(UploadsTest, TheLimitHoldsAndWhatNobodyNeedsMakesRoom) {
  Open(700);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Prepare({{"config.json", ""}, {"x", std::string(701, 'x')}}).status()));
  SendAll(model_);
  // Until somebody says what is needed, everything is.
  clock_.Advance(absl::Hours(2));
  EXPECT_TRUE(absl::IsResourceExhausted(Prepare(other_).status()));
  uploads_->SetNeeded({NameOf(model_)});
  EXPECT_TRUE(absl::IsResourceExhausted(Prepare(other_).status()));
  uploads_->SetNeeded({});
  // Its job may be on its way.
  EXPECT_TRUE(uploads_->Find(NameOf(model_)).has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(Prepare(other_).status()));
  clock_.Advance(absl::Minutes(2));
  EXPECT_TRUE(Prepare(other_).ok());
  EXPECT_FALSE(uploads_->Find(NameOf(model_)).has_value());
  EXPECT_EQ(Folders(), std::vector<std::string>{NameOf(other_) + ".partial"});
  Open(0);
  EXPECT_TRUE(absl::IsFailedPrecondition(Prepare(model_).status()));
}

// Each costs memory, and a place in the folder, however small it is.
TEST_F(UploadsTest, TheNumberOfFilesHasALimit) {
  uploads_ = *Uploads::Open(&fs_, &clock_,
                            {.data_dir = kData, .bytes_max = 1000, .files_max = 4, .free_min = 0});
  uploads_->SetNeeded({});
  const std::vector<Content> third = {{"config.json", "3"}};
  SendAll(model_);
  SendAll(other_);
  EXPECT_TRUE(absl::IsResourceExhausted(Prepare(third).status()));
  // Those that nobody needs make room.
  clock_.Advance(absl::Minutes(2));
  ASSERT_TRUE(uploads_->Find(NameOf(other_)).has_value());
  EXPECT_TRUE(Prepare(third).ok());
  EXPECT_FALSE(uploads_->Find(NameOf(model_)).has_value());
  EXPECT_TRUE(uploads_->Find(NameOf(other_)).has_value());
}

TEST_F(UploadsTest, ASweepRemovesWhatIsAbandoned) {
  Open();
  SendAll(model_);
  ASSERT_TRUE(Prepare(other_).ok());
  EXPECT_TRUE(uploads_->Sweep().empty());
  uploads_->SetNeeded({NameOf(model_)});
  clock_.Advance(absl::Minutes(59));
  EXPECT_TRUE(uploads_->Sweep().empty());
  {
    const auto held = uploads_->Receive(NameOf(other_), "b", 0);
    clock_.Advance(absl::Minutes(2));
    EXPECT_TRUE(uploads_->Sweep().empty());
  }
  // It counts from a restart, since the clock may have been set meanwhile.
  Open();
  uploads_->SetNeeded({NameOf(model_)});
  EXPECT_TRUE(uploads_->Sweep().empty());
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(uploads_->Sweep(), std::vector<std::string>{NameOf(other_)});
  EXPECT_EQ(Folders(), std::vector<std::string>{NameOf(model_)});
  uploads_->SetNeeded({});
  EXPECT_EQ(uploads_->Sweep(), std::vector<std::string>{NameOf(model_)});
  EXPECT_TRUE(Folders().empty());
}

// A start may see a clock that is wrong by months. So what was there counts as used then.
TEST_F(UploadsTest, AClockThatIsWrongAtAStartMakesNothingOld) {
  Open();
  SendAll(model_);
  clock_.Advance(absl::Hours(24 * 90));
  Open(700);
  uploads_->SetNeeded({});
  EXPECT_TRUE(uploads_->Sweep().empty());
  EXPECT_TRUE(absl::IsResourceExhausted(Prepare(other_).status())) << "nor makes it room at once";
  clock_.Advance(absl::Minutes(59));
  EXPECT_TRUE(uploads_->Sweep().empty());
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(uploads_->Sweep(), std::vector<std::string>{NameOf(model_)});
}

TEST_F(UploadsTest, AFullDiskKeepsWhatCame) {
  Open();
  ASSERT_TRUE(Prepare(model_).ok());
  {
    auto file = uploads_->Receive(NameOf(model_), "a.f32", 0);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append(std::string(100, 'a')).ok());
    fs_.SetDecision([](int64_t, FileOp op) {
      return op == FileOp::kWrite ? absl::ResourceExhaustedError("no space left")
                                  : absl::OkStatus();
    });
    EXPECT_TRUE(absl::IsResourceExhausted((*file)->Append(std::string(100, 'a'))));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(Prepare(other_).status()));
  fs_.SetDecision([](int64_t, FileOp) { return absl::OkStatus(); });
  EXPECT_EQ(Folders(), std::vector<std::string>{NameOf(model_) + ".partial"});
  EXPECT_EQ(Prepare(model_)->files[1].bytes, 100);
  EXPECT_TRUE(Send(model_, 1, std::string(200, 'a'), 100)->file.verified);
}

// Pieces so large that they are hashed while they are written.
TEST_F(UploadsTest, PiecesAreHashedAndWrittenInTheirOrder) {
  Open(int64_t{1} << 30);
  std::string bytes(3 << 20, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
  const std::vector<Content> large = {{"config.json", "{}"}, {"x", bytes}};
  ASSERT_TRUE(Prepare(large).ok());
  const absl::string_view all = bytes;
  {
    auto file = uploads_->Receive(NameOf(large), "x", 0);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append({all.substr(0, 1 << 20), "", all.substr(1 << 20, 77)}).ok());
    // None of the pieces counts if one of them fails.
    int writes = 0;
    fs_.SetDecision([&](int64_t, FileOp op) {
      return op == FileOp::kWrite && ++writes == 2 ? absl::ResourceExhaustedError("no space left")
                                                   : absl::OkStatus();
    });
    EXPECT_TRUE(absl::IsResourceExhausted(
        (*file)->Append({all.substr((1 << 20) + 77, 50'000), all.substr((1 << 20) + 50'077)})));
    EXPECT_EQ((*file)->bytes(), (1 << 20) + 77);
    fs_.SetDecision([](int64_t, FileOp) { return absl::OkStatus(); });
  }
  EXPECT_EQ(Prepare(large)->files[1].bytes, (1 << 20) + 77);
  const auto rest = Send(large, 1, std::string(all.substr((1 << 20) + 77)), (1 << 20) + 77);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_TRUE(rest->file.verified);
}

TEST_F(UploadsTest, WhatAFailedSyncTookIsSentAgain) {
  Open();
  ASSERT_TRUE(Prepare(model_).ok());
  fs_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kSync ? absl::DataLossError("the disk is gone") : absl::OkStatus();
  });
  EXPECT_FALSE(Send(model_, 1, model_[1].bytes).ok());
  fs_.SetDecision([](int64_t, FileOp) { return absl::OkStatus(); });
  EXPECT_EQ(Prepare(model_)->files[1].bytes, 0);
  EXPECT_TRUE(Send(model_, 1, model_[1].bytes)->file.verified);
}

// Whatever a crash takes: after it a whole upload is sound, and one that is not goes on.
TEST_F(UploadsTest, SurvivesACrashAtEveryOperation) {
  for (int64_t crash = 0;; ++crash) {
    for (const UnsyncedFate fate :
         {UnsyncedFate::kDropped, UnsyncedFate::kKept, UnsyncedFate::kRandom}) {
      MemoryFileSystem base;
      ASSERT_TRUE(base.CreateDir(kData).ok());
      ASSERT_TRUE(base.SyncDir("").ok());
      FailingFileSystem failing(&base);
      const Uploads::Options options{.data_dir = kData, .bytes_max = 1000, .free_min = 0};
      const auto attempt = [&](FileSystem& fs) -> absl::StatusOr<bool> {
        LH_ASSIGN_OR_RETURN(const auto uploads, Uploads::Open(&fs, &clock_, options));
        bool complete = false;
        for (size_t tries = 0; tries < 3 && !complete; ++tries) {
          LH_ASSIGN_OR_RETURN(const Uploads::Prepared prepared, uploads->Prepare(FilesOf(model_)));
          complete = prepared.complete;
          for (size_t i = 0; i < model_.size() && !complete; ++i) {
            if (prepared.files[i].verified) continue;
            const int64_t at = prepared.files[i].bytes;
            LH_ASSIGN_OR_RETURN(const auto file,
                                uploads->Receive(NameOf(model_), model_[i].name, at));
            LH_RETURN_IF_ERROR(file->Append(model_[i].bytes.substr(at)));
            const absl::StatusOr<IncomingFile::Ended> ended = file->Finish();
            // Bytes that a crash left damaged.
            if (absl::IsDataLoss(ended.status())) continue;
            LH_RETURN_IF_ERROR(ended.status());
            complete = ended->complete;
          }
        }
        return complete;
      };
      failing.FailFrom(crash, absl::CancelledError("killed"));
      const bool done = attempt(failing).ok();
      const auto after = base.CrashCopy(fate, crash);
      int64_t checked = 0;
      EXPECT_TRUE(CheckUploads(*after, kData, &checked).empty()) << crash;
      EXPECT_TRUE(!done || checked == 1) << crash;
      const auto again = attempt(*after);
      ASSERT_TRUE(again.ok()) << again.status() << " after " << crash;
      EXPECT_TRUE(*again) << crash;
      EXPECT_EQ(ReadFile(*after, UploadFolder(kData, NameOf(model_)) + "/a.f32", 1000).value_or(""),
                model_[1].bytes)
          << crash;
      if (done && fate == UnsyncedFate::kRandom) return;
    }
  }
}

TEST_F(UploadsTest, DamageIsFoundByTheCheck) {
  Open();
  SendAll(model_);
  const std::string folder = UploadFolder(kData, NameOf(model_));
  ASSERT_TRUE((*fs_.Open(folder + "/a.f32"))->WriteAt(7, "x").ok());
  int64_t checked = 0;
  EXPECT_EQ(CheckUploads(fs_, kData, &checked).size(), 1u);
  // One that lost bytes is not offered any more; what is no upload stays.
  ASSERT_TRUE((*fs_.Open(folder + "/a.f32"))->Truncate(7).ok());
  ASSERT_TRUE(fs_.CreateDir(UploadsFolder(kData) + "/mine").ok());
  Open();
  EXPECT_FALSE(uploads_->Find(NameOf(model_)).has_value());
  EXPECT_EQ(Folders(), std::vector<std::string>{"mine"});
  ASSERT_EQ(troubles_.size(), 1u);
  EXPECT_TRUE(absl::StrContains(troubles_[0], "a.f32 has 7 bytes instead of")) << troubles_[0];
}

TEST_F(UploadsTest, OneThatCouldNotBeReadAtTheStartIsReplaced) {
  Open();
  SendAll(model_);
  fs_.opens = [](const std::string&) { return absl::UnavailableError("no descriptor is left"); };
  Open();
  fs_.opens = nullptr;
  EXPECT_EQ(troubles_, std::vector<std::string>{"no descriptor is left"});
  EXPECT_FALSE(uploads_->Find(NameOf(model_)).has_value());
  SendAll(model_);
  EXPECT_EQ(Folders(), std::vector<std::string>{NameOf(model_)});
}

TEST_F(UploadsTest, AFolderThatCannotBeRemovedDoesNotStopTheOthers) {
  Open();
  SendAll(model_);
  const std::string left = UploadFolder(kData, std::string(64, '0')) + ".removed";
  ASSERT_TRUE(fs_.CreateDir(left).ok());
  fs_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kRemove ? absl::PermissionDeniedError("not yours") : absl::OkStatus();
  });
  Open();
  EXPECT_TRUE(uploads_->Find(NameOf(model_)).has_value());
  EXPECT_EQ(troubles_, std::vector<std::string>{"not yours"});
}

}  // namespace
}  // namespace longhaul
