//! Both clients for asyncio, and results for an event loop.
//!
//! ```text
//! producer.rs, consumer/    the classes that `AIOKafkaProducer` and `AIOKafkaConsumer` extend
//! coroutine.rs      runs an operation in a task. awaiting.rs: what `await` gets from our awaitables
//! completions.rs    what a loop has to deliver. loop_queue.rs: its queue, which other threads fill
//! record_future.rs  the result of one send. record_waits.rs: the futures that tasks wait for
//! running_loop.rs   which loop runs in this thread
//! ```

pub(crate) mod awaiting;
pub(crate) mod completions;
pub(crate) mod consumer;
pub(crate) mod coroutine;
mod loop_queue;
pub(crate) mod producer;
pub(crate) mod record_future;
mod record_waits;
mod running_loop;
