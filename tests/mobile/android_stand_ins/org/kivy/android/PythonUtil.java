package org.kivy.android;

import java.io.File;

public class PythonUtil {
    public static void loadLibraries(File filesDir, File libsDir) {}
}
