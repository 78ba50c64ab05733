//! Both clients for asyncio: calls as coroutines, and results for an event loop.
//!
//! ```text
//! producer.rs, consumer/    the classes that `AIOKafkaProducer` and `AIOKafkaConsumer` extend
//! call.rs           an operation or a job as a coroutine. awaiting.rs: its steps
//! job.rs            the work of a call that is not a producer's
//! completions.rs    what a loop has to deliver. loop_queue.rs: its queue, which other threads fill
//! record_future.rs  the result of one send. record_waits.rs: the futures that tasks wait for
//! running_loop.rs   which loop runs in this thread
//! sleepers.rs       the calls that wait for records of a consumer
//! ```

pub(crate) mod awaiting;
pub(crate) mod call;
pub(crate) mod completions;
pub(crate) mod consumer;
mod job;
mod loop_queue;
pub(crate) mod producer;
pub(crate) mod record_future;
mod record_waits;
mod running_loop;
pub(crate) mod sleepers;
