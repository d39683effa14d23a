//! The contract, run on the reference store. One that must fail it is in `careless`.

use std::sync::Arc;

use rethread_core::conformance::Factory;
use rethread_core::{Backend, Fixed, MemoryStore};

struct Memory {
    store: Arc<MemoryStore>,
    world: Arc<Fixed>,
}

impl Memory {
    fn new() -> Memory {
        let world = Arc::new(Fixed::default());
        Memory { store: Arc::new(MemoryStore::new(world.clone())), world }
    }
}

impl Factory for Memory {
    fn store(&self) -> Arc<dyn Backend> {
        self.store.clone()
    }

    fn world(&self) -> Arc<Fixed> {
        self.world.clone()
    }
}

rethread_core::conformance!(memory, Memory::new());
