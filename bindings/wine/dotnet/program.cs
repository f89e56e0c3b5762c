// A program for .NET: an EventSource whose events it records itself in real time, by the functions of Windows. Run with `wait`,
// it waits until a session has enabled the source, and writes.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Diagnostics.Tracing;
using System.Runtime.InteropServices;
using System.Threading;

[EventSource(Name = "OpenETW-Wine-DotNet")]
public sealed class Source : EventSource
{
    public static readonly Source Log = new Source();

    public static class Keywords
    {
        public const EventKeywords Some = (EventKeywords)2;
    }

    [Event(1, Level = EventLevel.Informational, Keywords = Keywords.Some)]
    public void Values(int number, long large, double real, bool flag, string text, Guid id)
    {
        WriteEvent(1, number, large, real, flag, text, id);
    }

    [Event(2, Level = EventLevel.Warning, Keywords = Keywords.Some)]
    public void Text(string text)
    {
        WriteEvent(2, text);
    }

    [Event(3, Level = EventLevel.Verbose, Keywords = Keywords.Some)]
    public void Detail(int number)
    {
        WriteEvent(3, number);
    }
}

public static class Program
{
    const int Count = 100, Manifest = 0xFFFE;
    const uint InsufficientBuffer = 122, BadLength = 24, NotFound = 1168;

    delegate void OnEvent(IntPtr record);

    [DllImport("advapi32.dll", CharSet = CharSet.Unicode)]
    static extern uint StartTraceW(out ulong session, string name, IntPtr properties);
    [DllImport("advapi32.dll", CharSet = CharSet.Unicode)]
    static extern uint ControlTraceW(ulong session, string name, IntPtr properties, uint code);
    [DllImport("advapi32.dll")]
    static extern uint EnableTraceEx2(ulong session, ref Guid provider, uint code, byte level, ulong any, ulong all, uint timeout, IntPtr parameters);
    [DllImport("advapi32.dll", SetLastError = true)]
    static extern ulong OpenTraceW(IntPtr logfile);
    [DllImport("advapi32.dll")]
    static extern uint ProcessTrace(ulong[] handles, uint count, IntPtr start, IntPtr end);
    [DllImport("advapi32.dll")]
    static extern uint CloseTrace(ulong handle);
    [DllImport("advapi32.dll")]
    static extern uint EnumerateTraceGuidsEx(int list, ref int input, int inputSize, byte[] output, int outputSize, ref int length);
    [DllImport("advapi32.dll")]
    static extern uint TraceQueryInformation(ulong session, int list, byte[] output, int outputSize, ref int length);
    [DllImport("tdh.dll")]
    static extern uint TdhGetEventInformation(IntPtr record, uint contexts, IntPtr context, IntPtr buffer, ref int size);
    [DllImport("tdh.dll")]
    static extern uint TdhGetProperty(IntPtr record, uint contexts, IntPtr context, uint count, ref PropertyDescriptor property, uint size, IntPtr value);
    [DllImport("kernel32.dll")]
    static extern int GetCurrentProcessId();

    [StructLayout(LayoutKind.Sequential)]
    struct PropertyDescriptor
    {
        public ulong Name;
        public uint Index;
        public uint Reserved;
    }

    static readonly Guid EventTrace = new Guid("68fdd900-4a3e-11d1-84f4-0000f80464e3");

    public static int Main(string[] arguments)
    {
        if (arguments.Length == 1 && arguments[0] == "wait")
        {
            for (int waited = 0; !Source.Log.IsEnabled() && waited < 30000; waited++) Thread.Sleep(1);
            Write();
        }
        else
        {
            Record();
        }
        Console.WriteLine("done");
        return 0;
    }

    static void Write()
    {
        for (int number = 0; number < Count; number++)
        {
            Source.Log.Values(number, -number, number / 2.0, number % 2 == 1, "text " + number, new Guid(number, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
            Source.Log.Text("\u00e9\u4e2d");
            Source.Log.Detail(number);
        }
    }

    static void Record()
    {
        Guid provider = Source.Log.Guid;
        IntPtr properties = Marshal.AllocHGlobal(2048);
        for (int at = 0; at < 2048; at++) Marshal.WriteByte(properties, at, 0);
        Marshal.WriteInt32(properties, 0, 2048);          // Wnode.BufferSize
        Marshal.WriteInt32(properties, 40, 1);            // Wnode.ClientContext
        Marshal.WriteInt32(properties, 44, 0x20000);      // Wnode.Flags: WNODE_FLAG_TRACED_GUID
        Marshal.WriteInt32(properties, 64, 0x100);        // LogFileMode: EVENT_TRACE_REAL_TIME_MODE
        Marshal.WriteInt32(properties, 116, 120);         // LoggerNameOffset
        ulong session;
        Succeed("StartTraceW", StartTraceW(out session, "OpenETW.Wine.DotNet", properties));
        Succeed("EnableTraceEx2", EnableTraceEx2(session, ref provider, 1, 4, 2, 0, 1000, IntPtr.Zero));
        for (int waited = 0; !Source.Log.IsEnabled() && waited < 10000; waited++) Thread.Sleep(1);
        Require(Source.Log.IsEnabled(EventLevel.Informational, Source.Keywords.Some), "the source is not enabled");
        Require(!Source.Log.IsEnabled(EventLevel.Verbose, Source.Keywords.Some), "the source is enabled for another level");
        Queries(provider);

        var found = new Dictionary<int, int>();
        var ids = new HashSet<int>();
        bool isFirst = true, areTimesRight = true;
        long before = Stopwatch.GetTimestamp();
        OnEvent callback = record =>
        {
            var bytes = new byte[16];
            Marshal.Copy(record + 24, bytes, 0, 16);
            // The session describes itself first, and raw times are those of the program's own counter.
            if (isFirst) Require(new Guid(bytes) == EventTrace && Marshal.ReadByte(record, 45) == 0, "no header first");
            isFirst = false;
            if (new Guid(bytes) != provider) return;
            int id = (ushort)Marshal.ReadInt16(record, 40), size = 0;
            long time = Marshal.ReadInt64(record, 16);
            // The manifest has been written before.
            areTimesRight &= id == Manifest || before <= time && time <= Stopwatch.GetTimestamp();
            int count;
            found[id] = (found.TryGetValue(id, out count) ? count : 0) + 1;
            ids.Add(Marshal.ReadInt32(record, 12));
            // The manifest comes with the events.
            if (id == 1) Require(TdhGetEventInformation(record, 0, IntPtr.Zero, IntPtr.Zero, ref size) == InsufficientBuffer, "TDH");
            if (id == 1) Change(record);
        };
        IntPtr name = Marshal.StringToHGlobalUni("OpenETW.Wine.DotNet");
        IntPtr logfile = Marshal.AllocHGlobal(448);
        for (int at = 0; at < 448; at++) Marshal.WriteByte(logfile, at, 0);
        Marshal.WriteIntPtr(logfile, 8, name);            // LoggerName
        Marshal.WriteInt32(logfile, 28, 0x10001100);      // PROCESS_TRACE_MODE_EVENT_RECORD | RAW_TIMESTAMP | REAL_TIME
        Marshal.WriteIntPtr(logfile, 424, Marshal.GetFunctionPointerForDelegate(callback));
        ulong trace = OpenTraceW(logfile);
        Require(trace != ulong.MaxValue, "OpenTraceW: " + Marshal.GetLastWin32Error());
        Require(Marshal.ReadInt64(logfile, 376) == Stopwatch.Frequency, "LogfileHeader.PerfFreq");
        uint processed = 1;
        var thread = new Thread(() => processed = ProcessTrace(new[] { trace }, 1, IntPtr.Zero, IntPtr.Zero));
        thread.Start();
        Write();
        Succeed("ControlTraceW", ControlTraceW(session, null, properties, 1));
        Require(thread.Join(30000), "ProcessTrace does not return");
        Succeed("ProcessTrace", processed);
        Succeed("CloseTrace", CloseTrace(trace));
        GC.KeepAlive(callback);
        Require(found.ContainsKey(Manifest), "no manifest");
        Require(found[1] == Count && found[2] == Count && !found.ContainsKey(3), "other events");
        Require(areTimesRight, "raw times are not those of the counter");
        Require(ids.Count == 1 && ids.Contains(GetCurrentProcessId()), "other processes");
        Console.WriteLine((found[1] + found[2]) + " events in real time");
    }

    // What PerfView's TraceEvent does with an event: it writes into the payload, and numbers events anew.
    static void Change(IntPtr record)
    {
        IntPtr payload = Marshal.ReadIntPtr(record, 96);
        int number = Marshal.ReadInt32(payload);
        Marshal.WriteInt32(payload, number + 1000);
        Require(Number(record) == number + 1000, "TDH reads another payload");
        Marshal.WriteInt32(payload, number);
        Require(Number(record) == number, "TDH reads another payload");
        Require(Properties(record) == 6, "other properties");
        Marshal.WriteInt16(record, 40, 2);
        Require(Properties(record) == 0, "TDH describes another event than the one that is passed");
        Marshal.WriteInt16(record, 40, 1);
    }

    static int Number(IntPtr record)
    {
        IntPtr name = Marshal.StringToHGlobalUni("number"), value = Marshal.AllocHGlobal(4);
        var property = new PropertyDescriptor { Name = (ulong)name.ToInt64(), Index = uint.MaxValue };
        Succeed("TdhGetProperty", TdhGetProperty(record, 0, IntPtr.Zero, 1, ref property, 4, value));
        int number = Marshal.ReadInt32(value);
        Marshal.FreeHGlobal(name);
        Marshal.FreeHGlobal(value);
        return number;
    }

    // Returns the number of top-level properties; 0 if the event is not known. A manifest that comes with events is for these.
    static int Properties(IntPtr record)
    {
        int size = 0;
        if (TdhGetEventInformation(record, 0, IntPtr.Zero, IntPtr.Zero, ref size) == NotFound) return 0;
        IntPtr information = Marshal.AllocHGlobal(size);
        Succeed("TdhGetEventInformation", TdhGetEventInformation(record, 0, IntPtr.Zero, information, ref size));
        int count = Marshal.ReadInt32(information, 104);
        Marshal.FreeHGlobal(information);
        return count;
    }

    // What a library for .NET asks of providers and of the sampled profile.
    static void Queries(Guid provider)
    {
        int process = GetCurrentProcessId(), length = 0;
        var guids = new byte[4096];
        Succeed("EnumerateTraceGuidsEx", EnumerateTraceGuidsEx(2, ref process, 4, guids, guids.Length, ref length));
        bool isThere = false;
        for (int at = 0; at + 16 <= length; at += 16)
        {
            var one = new byte[16];
            Array.Copy(guids, at, one, 0, 16);
            isThere |= new Guid(one) == provider;
        }
        Require(isThere, "the provider is not one of the process");
        Require(TraceQueryInformation(0, 7, null, 0, ref length) == BadLength && length > 24, "sources without room");
        var sources = new byte[length];
        Succeed("TraceQueryInformation", TraceQueryInformation(0, 7, sources, length, ref length));
        Require(sources[24] == 'T' && sources[26] == 'i', "the first source is not the timer");
    }

    static void Succeed(string function, uint code)
    {
        Require(code == 0, function + " returned " + code);
    }

    static void Require(bool condition, string message)
    {
        if (condition) return;
        Console.Error.WriteLine(message);
        Environment.Exit(1);
    }
}
