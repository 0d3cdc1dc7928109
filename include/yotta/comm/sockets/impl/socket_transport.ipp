// The bodies of comm/sockets/socket_transport.hpp.
#pragma once

#include "yotta/comm/sockets/socket_transport.hpp"

namespace yotta {

YOTTA_INLINE SocketTransport::SocketTransport(std::shared_ptr<SocketMesh> mesh, int size,
                                              int32_t world, const SocketOptions& options)
    : options_(options),
      mesh_(std::move(mesh)),
      size_(size),
      world_(world),
      control_plane_(mesh_->rank(), size, [this](int to, int kind, const std::string& text) {
        mesh_->send(to, frame(SocketFrame::Kind::control, kind), text);
      }) {
  state_.rank = mesh_->rank();
  state_.groups.emplace_back().members.resize(static_cast<size_t>(size));
  std::iota(state_.groups[0].members.begin(), state_.groups[0].members.end(), 0);
  mesh_->attach(world, this);
}
YOTTA_INLINE SocketTransport::~SocketTransport() { mesh_->detach(this); }

}  // namespace yotta
