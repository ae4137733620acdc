//! A server's port. The port's connections can be closed, and the port then remains reserved until
//! the server listens on it again.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;

use axum::Router;
use test_support::LONG;
use tokio::net::TcpSocket;
use tokio::runtime::{Builder, Runtime};

use super::locks::lock;

pub(super) struct Port {
    address: SocketAddr,
    state: Mutex<State>,
}

struct State {
    /// The runtime that runs all connections, or `None` while the port is closed.
    runtime: Option<Runtime>,
    /// A socket that is bound to the port but does not listen. While the port is closed, the socket
    /// prevents other programs from taking the port, and clients are refused.
    reserved: TcpSocket,
}

impl Port {
    /// Listens on a new port.
    pub(super) fn open(router: Router) -> Self {
        let socket = bound((Ipv4Addr::LOCALHOST, 0).into());
        let address = socket.local_addr().unwrap();
        let reserved = bound(address);
        let state = State { runtime: Some(listen(socket, router)), reserved };
        Self { address, state: Mutex::new(state) }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections, and closes the port.
    pub(super) fn close(&self) {
        let runtime = lock(&self.state).runtime.take().expect("the port is open");
        // Waits until the tasks and their connections have been dropped.
        runtime.shutdown_timeout(LONG);
    }

    /// Opens the port again.
    pub(super) fn open_again(&self, router: Router) {
        let mut state = lock(&self.state);
        assert!(state.runtime.is_none(), "the port is closed");
        let next = bound(self.address);
        let socket = std::mem::replace(&mut state.reserved, next);
        state.runtime = Some(listen(socket, router));
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Some(runtime) = lock(&self.state).runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn bound(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    // Several sockets may be bound to the port as long as none of them listens.
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

fn listen(socket: TcpSocket, router: Router) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).thread_name("api-server").enable_all().build().unwrap();
    let listener = {
        let _entered = runtime.enter();
        socket.listen(1024).unwrap()
    };
    runtime.spawn(async move { axum::serve(listener, router).await });
    runtime
}
