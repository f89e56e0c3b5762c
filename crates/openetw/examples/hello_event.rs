//! The smallest provider: define, register, write, unregister. Record it with
//! `etw record -p MyCompany.MyProvider -o hello.etl -- hello_event`.

#[cfg(any(target_os = "linux", windows))]
openetw::provider! {
    /// The provider.
    static MY_PROVIDER: "MyCompany.MyProvider";
}

#[cfg(any(target_os = "linux", windows))]
fn main() {
    MY_PROVIDER.register();
    openetw::event!(MY_PROVIDER, "MyEvent", str8("Message", "Hello from ETW"));
    MY_PROVIDER.unregister();
}

#[cfg(not(any(target_os = "linux", windows)))]
fn main() {
    println!("providers run on Linux");
}
