#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

/// What a peer may do with the key of a region, whatever kind of region it is, and what it is told. The peer
/// is any implementation; these tables are what both ends are held to.
namespace uroce::keys {

/// Which bytes of a region of n bytes.
enum class Place {
  kFirstByte,      // [0, 1)
  kLastByte,       // [n - 1, n)
  kBorder,         // 10 bytes, half of them in the next of the pieces that the region lies in
  kWhole,          // [0, n), several packets
  kNothing,        // no bytes, far outside
  kOneTooMany,     // [n - 1, n + 1)
  kLastIsTooMany,  // [n - 3000, n + 1): with a path MTU of 1024 only the last packet is outside
  kBehind,         // [n, n + 1)
  kOneTooEarly,    // [-1, 1)
  kBefore,         // [-1, 0)
  kAroundTheEnd,   // the last byte that an address can name, and the one "behind" it
};

enum class Key {
  kRight,
  kOtherLowBits,  // the same index, other 8 bits of the consumer's
  kOtherIndex,
};

/// Rights of the region for peers.
enum class Granted { kBoth, kRead, kWrite, kNone };

enum class State {
  kLive,
  kEnded,  // by each way that the kind has: deregistered, unmapped, mapped anew, invalidated by either end
};

struct Attempt {
  const char* name;
  ibv_wr_opcode operation;
  Place place;
  Key key;
  Granted granted;
  State state;
  /// At the peer. With an error no byte has moved at either end, and the owner's queue pair is in the error
  /// state; with success exactly these bytes have moved, and they are right.
  ibv_wc_status status;
};

constexpr ibv_wr_opcode kWrite = IBV_WR_RDMA_WRITE;
constexpr ibv_wr_opcode kRead = IBV_WR_RDMA_READ;
constexpr ibv_wc_status kDone = IBV_WC_SUCCESS;
constexpr ibv_wc_status kRefused = IBV_WC_REM_ACCESS_ERR;

/// Every kind of region, in this order.
constexpr Attempt kAttempts[] = {
    // Within bounds.
    {"WRITE of the first byte", kWrite, Place::kFirstByte, Key::kRight, Granted::kBoth, State::kLive, kDone},
    {"WRITE of the last byte", kWrite, Place::kLastByte, Key::kRight, Granted::kBoth, State::kLive, kDone},
    {"WRITE over a border", kWrite, Place::kBorder, Key::kRight, Granted::kBoth, State::kLive, kDone},
    {"WRITE of all", kWrite, Place::kWhole, Key::kRight, Granted::kBoth, State::kLive, kDone},
    {"READ of the first byte", kRead, Place::kFirstByte, Key::kRight, Granted::kBoth, State::kLive, kDone},
    {"READ of the last byte", kRead, Place::kLastByte, Key::kRight, Granted::kBoth, State::kLive, kDone},
    {"READ over a border", kRead, Place::kBorder, Key::kRight, Granted::kBoth, State::kLive, kDone},
    {"READ of all", kRead, Place::kWhole, Key::kRight, Granted::kBoth, State::kLive, kDone},
    // Neither key nor address of nothing is looked at (C9-88).
    {"WRITE of nothing", kWrite, Place::kNothing, Key::kOtherIndex, Granted::kBoth, State::kLive, kDone},
    {"READ of nothing", kRead, Place::kNothing, Key::kOtherIndex, Granted::kBoth, State::kLive, kDone},
    // Out of bounds.
    {"WRITE one too many", kWrite, Place::kOneTooMany, Key::kRight, Granted::kBoth, State::kLive, kRefused},
    {"WRITE of many", kWrite, Place::kLastIsTooMany, Key::kRight, Granted::kBoth, State::kLive, kRefused},
    {"WRITE behind", kWrite, Place::kBehind, Key::kRight, Granted::kBoth, State::kLive, kRefused},
    {"WRITE one too early", kWrite, Place::kOneTooEarly, Key::kRight, Granted::kBoth, State::kLive, kRefused},
    {"WRITE before", kWrite, Place::kBefore, Key::kRight, Granted::kBoth, State::kLive, kRefused},
    {"WRITE around", kWrite, Place::kAroundTheEnd, Key::kRight, Granted::kBoth, State::kLive, kRefused},
    {"READ one too many", kRead, Place::kOneTooMany, Key::kRight, Granted::kBoth, State::kLive, kRefused},
    {"READ of many", kRead, Place::kLastIsTooMany, Key::kRight, Granted::kBoth, State::kLive, kRefused},
    {"READ behind", kRead, Place::kBehind, Key::kRight, Granted::kBoth, State::kLive, kRefused},
    {"READ one too early", kRead, Place::kOneTooEarly, Key::kRight, Granted::kBoth, State::kLive, kRefused},
    {"READ before", kRead, Place::kBefore, Key::kRight, Granted::kBoth, State::kLive, kRefused},
    {"READ around", kRead, Place::kAroundTheEnd, Key::kRight, Granted::kBoth, State::kLive, kRefused},
    // Not its key.
    {"WRITE, low bits", kWrite, Place::kFirstByte, Key::kOtherLowBits, Granted::kBoth, State::kLive,
     kRefused},
    {"READ, low bits", kRead, Place::kFirstByte, Key::kOtherLowBits, Granted::kBoth, State::kLive, kRefused},
    {"WRITE, index", kWrite, Place::kFirstByte, Key::kOtherIndex, Granted::kBoth, State::kLive, kRefused},
    {"READ, index", kRead, Place::kFirstByte, Key::kOtherIndex, Granted::kBoth, State::kLive, kRefused},
    // Rights.
    {"READ, may read", kRead, Place::kWhole, Key::kRight, Granted::kRead, State::kLive, kDone},
    {"WRITE, may read", kWrite, Place::kFirstByte, Key::kRight, Granted::kRead, State::kLive, kRefused},
    {"WRITE, may write", kWrite, Place::kWhole, Key::kRight, Granted::kWrite, State::kLive, kDone},
    {"READ, may write", kRead, Place::kFirstByte, Key::kRight, Granted::kWrite, State::kLive, kRefused},
    {"WRITE, may nothing", kWrite, Place::kFirstByte, Key::kRight, Granted::kNone, State::kLive, kRefused},
    {"READ, may nothing", kRead, Place::kFirstByte, Key::kRight, Granted::kNone, State::kLive, kRefused},
    // What was allowed, with a key that has ended.
    {"WRITE, ended", kWrite, Place::kFirstByte, Key::kRight, Granted::kBoth, State::kEnded, kRefused},
    {"WRITE of all, ended", kWrite, Place::kWhole, Key::kRight, Granted::kBoth, State::kEnded, kRefused},
    {"READ, ended", kRead, Place::kFirstByte, Key::kRight, Granted::kBoth, State::kEnded, kRefused},
    {"READ of all, ended", kRead, Place::kWhole, Key::kRight, Granted::kBoth, State::kEnded, kRefused},
};

/// SEND with invalidate.
struct Invalidation {
  const char* name;
  bool kind_allows;  // the row is for kinds that peers may invalidate, or for those that they may not
  Key key;
  State state;
  ibv_wc_status peer;
  /// Of the receive that the SEND takes. On success it names the key, and from then on all of
  /// State::kEnded holds; otherwise the region is as it was.
  ibv_wc_status owner;
};

constexpr Invalidation kInvalidations[] = {
    {"SEND with invalidate", false, Key::kRight, State::kLive, kRefused, IBV_WC_REM_INV_REQ_ERR},
    {"SEND, other low bits", false, Key::kOtherLowBits, State::kLive, kRefused, IBV_WC_REM_INV_REQ_ERR},
    {"SEND, other index", false, Key::kOtherIndex, State::kLive, kRefused, IBV_WC_REM_INV_REQ_ERR},
    {"SEND, ended", false, Key::kRight, State::kEnded, kRefused, IBV_WC_REM_INV_REQ_ERR},
    {"SEND, other low bits", true, Key::kOtherLowBits, State::kLive, kRefused, IBV_WC_REM_INV_REQ_ERR},
    {"SEND, other index", true, Key::kOtherIndex, State::kLive, kRefused, IBV_WC_REM_INV_REQ_ERR},
    {"SEND with invalidate", true, Key::kRight, State::kLive, kDone, kDone},
    {"SEND, invalidated already", true, Key::kRight, State::kEnded, kDone, kDone},
};

}  // namespace uroce::keys
