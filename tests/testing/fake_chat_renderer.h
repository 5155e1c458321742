// A program that stands in for the Python renderer of conversations: each line is a conversation
// whose tokens are its bytes, and the loss is on capital letters. A line that begins with ! is
// refused with what follows.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "common/base/check.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {

// While it exists, python3 is that program, in this process and those that it starts.
class FakeChatRenderer {
 public:
  FakeChatRenderer() : path_(std::getenv("PATH")) {
    Write("python3", kProgram);
    std::filesystem::permissions(dir_.Join("python3"), std::filesystem::perms::owner_all);
    Write("tokenizer.json", "{}");
    setenv("PATH", (dir_.Join("") + ":" + path_).c_str(), 1);
    setenv("LONGHAUL_COMMANDS", dir_.Join("commands").c_str(), 1);
  }
  FakeChatRenderer(const FakeChatRenderer&) = delete;
  ~FakeChatRenderer() { setenv("PATH", path_.c_str(), 1); }

  // A folder with a tokenizer.json, of 128 tokens.
  std::string model() const { return dir_.Join(""); }
  // How it was started, line by line.
  std::string commands() const {
    std::stringstream text;
    text << std::ifstream(dir_.Join("commands")).rdbuf();
    return text.str();
  }

 private:
  static constexpr char kProgram[] = R"(#!/usr/bin/python3 -B
import os, struct, sys
def read(size):
    data = sys.stdin.buffer.read(size)
    if len(data) != size: sys.exit(0)
    return data
def word(): return struct.unpack('<I', read(4))[0]
assert '--chat' in sys.argv, sys.argv
with open(os.environ['LONGHAUL_COMMANDS'], 'a') as file: file.write(' '.join(sys.argv[3:]) + '\n')
out = sys.stdout.buffer
out.write(struct.pack('<IIi', 0x59454350, 128, -1)); out.flush()
while True:
    assert word() == 0x54484350
    rows = [read(word()) for _ in range(word())]
    out.write(struct.pack('<I', len(rows)))
    for row in rows:
        if row.startswith(b'!'):
            out.write(struct.pack('<II', 0x4f4e4350, len(row) - 1) + row[1:])
        else:
            out.write(struct.pack('<II', 0x59454350, len(row))
                      + b''.join(struct.pack('<I', c) for c in row) + bytes(c < 97 for c in row))
    out.flush()
)";

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream file(dir_.Join(name));
    file << bytes;
    LH_CHECK(file.good(), "a test can write its files");
  }

  TempDir dir_;
  const std::string path_;
};

}  // namespace longhaul
