// What a tokenizer's process and its parent say over a stream socket: 32-bit little-endian words
// and bytes. The processes: longhaul-sentencepiece, and `python -m longhaul.tokenize --pipe`.
//   process at its start:  kPiecesReady, vocab, eos (-1: none)
//                          or kPiecesRefused, bytes, message; then it ends
//   parent, again and again: texts, then for each its bytes and the bytes themselves
//   process:                 texts, then for each its tokens and the tokens themselves
//   or, parent:            kPiecesDecode, tokens, then the tokens themselves
//   process:                 bytes, then the bytes themselves
//   or, parent:            kPiecesControl
//   process:                 control tokens, then for each its bytes and the bytes themselves
//   or, parent:            kPiecesChat, rows, then for each its bytes and the bytes themselves
//   process (--chat):        rows, then for each kPiecesReady, tokens, the tokens themselves, and
//                            for each a byte: whether it counts; or kPiecesRefused, bytes, message
// The process ends when the parent closes the socket.
#pragma once

#include <cstdint>

namespace longhaul {

inline constexpr uint32_t kPiecesReady = 0x59454350, kPiecesRefused = 0x4f4e4350;
inline constexpr uint32_t kPiecesDecode = 0x43454450, kPiecesControl = 0x4c544350;
inline constexpr uint32_t kPiecesChat = 0x54484350;
inline constexpr uint32_t kPiecesControlMax = 1 << 16, kPiecesControlBytesMax = 1 << 12;
// Of a request: the longest line that JSONL may have, and the texts that are sent beside it.
inline constexpr uint32_t kPiecesTextsMax = 1 << 20, kPiecesBytesMax = (256 << 20) + (2 << 20);
inline constexpr uint32_t kPiecesTokensMax = 1 << 16;  // To be decoded.

}  // namespace longhaul
