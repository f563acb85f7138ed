package org.kivy.android;

public class PythonService {
    public static volatile String started;

    public static void nativeStart(
            String androidPrivate,
            String androidArgument,
            String serviceEntrypoint,
            String pythonName,
            String pythonHome,
            String pythonPath,
            String pythonServiceArgument) {
        started = androidArgument + " " + serviceEntrypoint;
    }
}
