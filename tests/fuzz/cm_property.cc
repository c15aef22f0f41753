#include "cm_property.h"

#include "cm_peer.h"

namespace uroce::fuzz {

namespace {

void act(Choices& choices, CmTarget& target, CmPeer& peer) {
  switch (choices.below(16)) {
    case 0:
    case 1:
      return target.call();
    case 2:
      return target.advance(milliseconds(int64_t{1} << choices.below(20)));
    case 3:
    case 4:
    case 5:
      return target.pump();
    case 6:
      return target.pump(choices.below(4));
    case 7:
      return peer.send_again();
    case 8:
      if (choices.once_in(16)) peer.flood();
      return;
    default:
      return peer.send();
  }
}

}  // namespace

CmDepth check_conversation(std::span<const std::byte> input) {
  Choices choices(input);
  CmTarget* there = nullptr;
  CmPeer peer(choices, there);
  CmTarget target(choices, [&](const Gid& to, const wire::CmMad& mad) { peer.observe(to, mad); });
  there = &target;
  while (!choices.over()) act(choices, target, peer);
  target.finish();
  return target.depth();
}

}  // namespace uroce::fuzz
